package wire

// Names in Temporal: workflows, activities, signals and error types.
const (
	// WorkflowIngestVersions takes an IngestVersions and returns a BatchResult.
	WorkflowIngestVersions = "IngestVersions"

	// The stages of IngestVersions take its input and return an Outcome for every version that does
	// not continue.
	ActivityParseVersions = "ingest-parse-versions"
	ActivityIndexVersions = "ingest-index-versions" // cuts, encodes and writes
	// ActivityFailVersions takes an IngestVersions and the outcomes of its failed
	// versions.
	ActivityFailVersions = "ingest-fail-versions"

	// WorkflowIngestBatch takes an IngestBatch and returns a BatchResult. This build does not start
	// it, but runs those that older builds started to their end.
	WorkflowIngestBatch = "IngestBatch"

	// The stages of IngestBatch take the batch and return an Outcome for every version that does
	// not continue.
	ActivityParse   = "ingest-parse"
	ActivitySegment = "ingest-segment"
	ActivityEncode  = "ingest-encode"
	ActivityWrite   = "ingest-write"
	// ActivityFail takes a batch and the outcomes of its failed versions.
	ActivityFail = "ingest-fail"

	// ErrorArtifactsMissing is the application error type of a stage that finds the output of the
	// stage before it missing.
	ErrorArtifactsMissing = "artifacts-missing"

	// WorkflowCurate takes a Curation and curates one collection until nothing is left to do:
	// clusters, merges of index segments, missing index entries, vectors of large collections, and
	// cleaning up after merges.
	WorkflowCurate = "CurateCollection"
	// WorkflowCurateMany takes a Curations and does one round for each collection. It is for many
	// small collections.
	WorkflowCurateMany = "CurateCollections"
	// ActivityCurateMany takes the Curations and returns a CuratedMany.
	ActivityCurateMany = "curate-collections"

	// SignalCurate says that something changed. It has no payload.
	SignalCurate = "changed"

	// The steps of CurateCollection take the Curation and return a Curated.
	ActivityBackfill = "curate-backfill" // missing index entries
	ActivityCluster  = "curate-cluster"  // sections that were added or removed
	ActivityMerge    = "curate-merge"    // segments of the lexical index
	ActivityVectors  = "curate-vectors"  // of a large collection: starts WorkflowVectors
	ActivitySweep    = "curate-sweep"    // what merges, generations and deletions left behind

	// WorkflowVectors takes a Curation and maintains the vectors of a large collection until
	// nothing is left to do. It receives SignalCurate. It runs separately, because building an
	// index can take hours.
	WorkflowVectors = "TendVectors"
	// ActivityTendVectors takes the Curation, does a part of the work and returns a Curated. If it
	// did nothing and more is left, the most builds run already: the workflow calls it again after
	// a pause.
	ActivityTendVectors = "tend-vectors"

	// WorkflowRebuild takes a Rebuild. It builds a new generation next to the live one, and then
	// switches to it at once.
	WorkflowRebuild = "RebuildCollection"

	// The steps of RebuildCollection. List returns RebuildParts, Cut takes a RebuildPart, and Flip
	// reports whether the generation is live now.
	ActivityRebuildList    = "rebuild-list"
	ActivityRebuildCut     = "rebuild-cut"
	ActivityRebuildCluster = "rebuild-cluster"
	ActivityRebuildFlip    = "rebuild-flip"
	ActivityRebuildFail    = "rebuild-fail"

	// ErrorRebuildRefused is the application error type that ends a rebuild as failed. Its message
	// is the reason.
	ErrorRebuildRefused = "rebuild-refused"
	// ErrorRebuildOver is the application error type of a step that finds that the generation is
	// not being built any more.
	ErrorRebuildOver = "rebuild-over"

	// WorkflowReparse takes a Reparse. It parses documents again and ingests those whose text
	// differs now as new versions.
	WorkflowReparse = "ReparseCollection"

	// The steps of ReparseCollection. List returns ReparseParts, Parse takes a ReparsePart, and
	// Finish reports whether the run is done.
	ActivityReparseList   = "reparse-list"
	ActivityReparseParse  = "reparse-parse"
	ActivityReparseFinish = "reparse-finish"

	// ErrorReparseOver is the application error type of a step that finds that the run was
	// cancelled or is done.
	ErrorReparseOver = "reparse-over"

	// WorkflowChoosePlan takes a PlanChoice. It makes questions, measures every plan on them, and
	// proposes one.
	WorkflowChoosePlan = "ChoosePlan"
	// ActivityChooseStep takes the PlanChoice, does a part of the work, and returns a ChoiceStep.
	ActivityChooseStep = "choose-step"
	// ActivityChooseFail takes the PlanChoice and the reason, and ends the choice as failed.
	ActivityChooseFail = "choose-fail"

	// ErrorChoiceRefused is the application error type that ends a choice as failed. Its message is
	// the reason.
	ErrorChoiceRefused = "choice-refused"
)
