package due

// SmallPassages is the maximum number of passages of a collection that is tended together with
// others, because none of its steps takes long.
const SmallPassages = 20_000

// Work is what is due for a collection.
type Work struct {
	// Small reports that the collection is small, and that nothing is due but what the other fields
	// say.
	Small bool
	// Cluster: sections were added or removed, or the collection is due to be clustered from
	// scratch.
	Cluster bool
	// Merge: segments of the index may be due to be merged.
	Merge bool
	// Sweep: something that was replaced is due to be removed.
	Sweep bool
}
