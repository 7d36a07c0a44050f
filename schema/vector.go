package schema

// VectorDimensions are the dimensions of vectors that can be stored. Each has a table.
var VectorDimensions = []int{256, 384, 512, 768, 1024}
