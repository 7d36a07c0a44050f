package wire

// Names in Temporal: workflows, activities and the types of their errors.
const (
	// WorkflowIngestVersions takes an IngestVersions and returns a BatchResult.
	WorkflowIngestVersions = "IngestVersions"

	// The stages of IngestVersions take it and return an Outcome for every
	// version that does not go on.
	ActivityParseVersions = "ingest-parse-versions"
	ActivityIndexVersions = "ingest-index-versions" // cuts, encodes and writes
	// ActivityFailVersions takes an IngestVersions and the outcomes of its failed
	// versions.
	ActivityFailVersions = "ingest-fail-versions"

	// WorkflowIngestBatch takes an IngestBatch and returns a BatchResult. Nothing
	// starts it any more; those that an older build started run to their end.
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
	// WorkflowCurateMany takes a Curations and does a round of each collection, as
	// many small ones are tended together.
	WorkflowCurateMany = "CurateCollections"
	// ActivityCurateMany takes the Curations and returns a CuratedMany.
	ActivityCurateMany = "curate-collections"

	// SignalCurate says that something changed. It carries nothing.
	SignalCurate = "changed"

	// The steps of CurateCollection take the Curation and return what they did.
	ActivityBackfill = "curate-backfill" // index entries that are missing
	ActivityCluster  = "curate-cluster"  // sections that came and went
	ActivityMerge    = "curate-merge"    // segments of the lexical index
	ActivityVectors  = "curate-vectors"  // of a large collection: begins WorkflowVectors
	ActivitySweep    = "curate-sweep"    // what merges, generations and a deletion left

	// WorkflowVectors takes a Curation and tends the vectors of a large collection until
	// nothing is left to do. It hears SignalCurate. Nobody waits for it: an index is
	// built for as long as hours.
	WorkflowVectors = "TendVectors"
	// ActivityTendVectors takes the Curation and does some of it. One that did nothing
	// and leaves more waits for others to have built their indexes.
	ActivityTendVectors = "tend-vectors"

	// WorkflowRebuild takes a Rebuild: a new generation beside the old one,
	// then one flip.
	WorkflowRebuild = "RebuildCollection"

	// The steps of RebuildCollection. List returns RebuildParts, Cut takes a
	// RebuildPart, Flip tells whether the generation is live now.
	ActivityRebuildList    = "rebuild-list"
	ActivityRebuildCut     = "rebuild-cut"
	ActivityRebuildCluster = "rebuild-cluster"
	ActivityRebuildFlip    = "rebuild-flip"
	ActivityRebuildFail    = "rebuild-fail"

	// ErrorRebuildRefused is the type of the application error that ends a
	// rebuild as failed; its message is the reason.
	ErrorRebuildRefused = "rebuild-refused"
	// ErrorRebuildOver is the type of the application error by which a step says
	// that the generation is not being built any more.
	ErrorRebuildOver = "rebuild-over"

	// WorkflowReparse takes a Reparse: documents are parsed again, and those whose
	// text is another one now are ingested as a new version.
	WorkflowReparse = "ReparseCollection"

	// The steps of ReparseCollection. List returns ReparseParts, Parse takes a
	// ReparsePart, Finish tells whether the run is done.
	ActivityReparseList   = "reparse-list"
	ActivityReparseParse  = "reparse-parse"
	ActivityReparseFinish = "reparse-finish"

	// ErrorReparseOver is the type of the application error by which a step says
	// that the run was cancelled, or is done.
	ErrorReparseOver = "reparse-over"

	// WorkflowChoosePlan takes a PlanChoice: questions are made, every plan is
	// measured on them, and one is proposed.
	WorkflowChoosePlan = "ChoosePlan"
	// ActivityChooseStep takes the PlanChoice, does some of it, and returns a
	// ChoiceStep.
	ActivityChooseStep = "choose-step"
	// ActivityChooseFail takes the PlanChoice and the reason, and ends it as failed.
	ActivityChooseFail = "choose-fail"

	// ErrorChoiceRefused is the type of the application error that ends a choice as
	// failed; its message is the reason.
	ErrorChoiceRefused = "choice-refused"
)
