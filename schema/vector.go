package schema

// VectorDimensions are those of the vectors that can be stored: each has a table.
var VectorDimensions = []int{256, 384, 512, 768, 1024}
