package wire

// Names in Temporal: workflows, activities and the types of their errors.
const (
	// WorkflowIngestBatch takes an IngestBatch and returns a BatchResult.
	WorkflowIngestBatch = "IngestBatch"

	// The stages of IngestBatch take the batch and return an Outcome for every
	// version that does not go on.
	ActivityParse   = "ingest-parse"
	ActivitySegment = "ingest-segment"
	ActivityEncode  = "ingest-encode"
	ActivityWrite   = "ingest-write"
	// ActivityFail takes a batch and the outcomes of its failed versions.
	ActivityFail = "ingest-fail"

	// ErrorArtifactsMissing is the type of the application error by which a
	// stage says that what the stage before left is gone.
	ErrorArtifactsMissing = "artifacts-missing"

	// WorkflowCurate takes a Curation and tends one collection until nothing is
	// left to do: clusters, merging of index segments, index entries that are
	// missing, vectors of large collections, what merging left.
	WorkflowCurate = "CurateCollection"
	// SignalCurate says that something changed. It carries nothing.
	SignalCurate = "changed"

	// WorkflowRebuild takes a Rebuild: a new generation beside the old one,
	// then one flip.
	WorkflowRebuild = "RebuildCollection"
)
