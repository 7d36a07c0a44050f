package due

// SmallPassages is the most passages of a collection that is tended together with
// others: none of its steps takes long.
const SmallPassages = 20_000

// Work is what is due for a collection.
type Work struct {
	// Small says that nothing is due but what the other fields say, and that this
	// takes no one's time.
	Small bool
	// Cluster: sections came or went, or clusters are to be made anew.
	Cluster bool
	// Merge: segments of the index may be due to be merged.
	Merge bool
	// Sweep: something that was replaced has stayed for long enough.
	Sweep bool
}
