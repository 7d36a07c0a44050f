package due

// How much of a collection is clustered at once, and when all of it is anew.
const (
	// ClusteredVersions and ClusteredSections bound one call of ClusterChanged. A
	// version alone may have more sections.
	ClusteredVersions = 256
	ClusteredSections = 2000

	// A collection is clustered anew when one in DriftShare of its sections came or
	// went since, of MinDrifted sections to MaxDrifted: larger ones are clustered
	// anew on demand alone.
	DriftShare, MinDrifted, MaxDrifted = 6, 64, 200_000
)
