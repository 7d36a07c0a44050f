package schema

// Limits of what one request may hold, wherever it comes in. The OpenAPI
// document has them too; a test compares.
const (
	// MaxQuestion bounds a question's text, in characters.
	MaxQuestion = 20_000
	// MaxTurns bounds how much of a conversation comes with a question, MaxTurn each of it in
	// characters, and MaxHistory all of it in bytes.
	MaxTurns, MaxTurn, MaxHistory = 200, 20_000, 256 << 10
	// MaxPlanName bounds the name of a plan that is asked for, in bytes.
	MaxPlanName = 64
	// MaxPlanText bounds a plan's YAML, in bytes.
	MaxPlanText = 64 << 10
	// MinChoices and MaxChoices bound what a question is to be chosen from: there
	// are letters for so many.
	MinChoices, MaxChoices = 2, 26
	// MaxChoice bounds one of the choices, in bytes.
	MaxChoice = 500
	// MaxDescription and MaxLanguage bound what is said of a collection, in bytes.
	MaxDescription, MaxLanguage = 2000, 35
	// MinClusterTokens and MaxClusterTokens bound the most tokens that a collection's
	// clusters may have, which are DefaultClusterTokens where nobody says (FunnelRAG's S):
	// a section has 1,000 at most, and what is larger is a cluster by itself.
	MinClusterTokens, DefaultClusterTokens, MaxClusterTokens = 1000, 4000, 64_000
	// MaxExternalID bounds a document's external id, in bytes: a unique index holds it.
	MaxExternalID = 1024
	// MaxFileName and MaxMediaType bound hints that come with a document, in bytes.
	MaxFileName, MaxMediaType = 1024, 255
	// MaxUploads bounds the documents of one upload.
	MaxUploads = 1000
	// MaxLabels bounds a document's labels, and MaxLabel one of them, in bytes.
	MaxLabels, MaxLabel = 100, 256
	// MaxMetadata bounds a document's metadata, in bytes of JSON.
	MaxMetadata = 64 << 10
	// MaxTitle bounds a title that comes with a document, in characters.
	MaxTitle = 1000
	// MaxKeepDays bounds for how many days anything may be said to be kept.
	MaxKeepDays = 100_000
)
