package due

// How much of a collection is clustered at once, and when it is clustered again from scratch.
const (
	// ClusteredVersions and ClusteredSections bound one call of ClusterChanged. A single version
	// may have more sections.
	ClusteredVersions = 1024
	ClusteredSections = 2000

	// A collection with MinDrifted to MaxDrifted sections is clustered again from scratch when one
	// in DriftShare of its sections was added or removed since the last time. A larger one is so
	// only on demand.
	DriftShare, MinDrifted, MaxDrifted = 6, 64, 200_000
)
