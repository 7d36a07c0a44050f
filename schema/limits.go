package schema

// Limits of a single request, on every interface. The OpenAPI document states them too; a test
// compares the two.
const (
	// MaxQuestion bounds a question's text, in characters.
	MaxQuestion = 20_000
	// MaxTurns bounds the turns of a conversation that come with a question, MaxTurn each turn in
	// characters, and MaxHistory all of them in bytes.
	MaxTurns, MaxTurn, MaxHistory = 200, 20_000, 256 << 10
	// MaxPlanName bounds the name of a plan, in bytes.
	MaxPlanName = 64
	// MaxPlanText bounds a plan's YAML, in bytes.
	MaxPlanText = 64 << 10
	// MinChoices and MaxChoices bound the choices of a multiple-choice question: each is named by a
	// letter.
	MinChoices, MaxChoices = 2, 26
	// MaxChoice bounds one of the choices, in bytes.
	MaxChoice = 500
	// MaxDescription and MaxLanguage bound the description and language of a collection, in bytes.
	MaxDescription, MaxLanguage = 2000, 35
	// MinClusterTokens and MaxClusterTokens bound a collection's limit of tokens per cluster, whose
	// default is DefaultClusterTokens (FunnelRAG's S). A section has at most 1,000 tokens; one that
	// exceeds the limit is a cluster by itself.
	MinClusterTokens, DefaultClusterTokens, MaxClusterTokens = 1000, 4000, 64_000
	// MaxExternalID bounds a document's external id, in bytes, because it is in a unique index.
	MaxExternalID = 1024
	// MaxFileName and MaxMediaType bound the hints that come with a document, in bytes.
	MaxFileName, MaxMediaType = 1024, 255
	// MaxUploads bounds the documents of one upload.
	MaxUploads = 1000
	// MaxLabels bounds a document's labels, and MaxLabel one of them, in bytes.
	MaxLabels, MaxLabel = 100, 256
	// MaxMetadata bounds a document's metadata, in bytes of JSON.
	MaxMetadata = 64 << 10
	// MaxTitle bounds a title that comes with a document, in characters.
	MaxTitle = 1000
	// MaxKeepDays bounds every retention time, in days.
	MaxKeepDays = 100_000
)
