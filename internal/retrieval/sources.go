// Package retrieval finds the passages that may answer a question: package plan reads plans,
// package stage has the stages, and package run runs them. This package defines the sources that
// they read from: the lexical index, the vectors, the texts and the model server. Every source
// returns only what is live, visible to the principal's groups and matched by the filter.
package retrieval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Sources are what stages read from. If Readers, Judges or Links are nil, the stages that need them
// report that.
type Sources struct {
	Model   Model
	Second  Second // nil: no collection has the second encoder's vectors
	Readers Readers
	Judges  Judges
	Lexical Lexical
	Vectors Vectors
	Texts   Texts
	Links   Links
	History History // nil: nothing is known of earlier questions
	// Preferences may be nil: llm_prefer is then that of the pack's own reader.
	Preferences Preferences
	// NearDuplicates may be nil: documents are then not compared.
	NearDuplicates NearDuplicates
	// Yield, if not nil, is called before each stage. It waits while work of higher priority runs.
	Yield func(context.Context)
}

// Model is the encoder on the model server.
type Model interface {
	// EncodeQuery returns unit vectors of the question and then of each passage, and the name of
	// their space. A text without a word that the model knows has a zero vector.
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
}

// Second is the second encoder, whose vectors some collections have.
type Second interface {
	Model
	// Info describes what the encoder has learnt.
	Info(ctx context.Context) (wire.ModelInfo, error)
}

// Readers are the models on the model server that read texts. Errors are those of the server.
// Operations that a pack has no graph for are not called.
type Readers interface {
	// Info returns the operations that the model pack has graphs for, and its calibrated
	// thresholds.
	Info(ctx context.Context) (wire.ModelInfo, error)
	// Score scores how well each text answers the question. With answers it also returns the spans
	// that do.
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// ScoreWithFeatures is Score with the features from which the pair model's labels are computed,
	// if its graph returns them.
	ScoreWithFeatures(ctx context.Context, lane wire.Lane, question string, texts []string) (wire.ScoresWithFeatures, error)
	// Rerank is Score with the pack's reranker, which may estimate the scores without answers.
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// Fuse reads all texts together and scores how much an answer would draw on each. Each text is
	// represented by tokens of its tokens, and with withQuestion also by tokens of the question.
	Fuse(ctx context.Context, lane wire.Lane, question string, texts []string, tokens int, withQuestion bool) (scores []float32, model string, err error)
	// Detect returns for each list of (has_answer, llm_prefer) the probability that its texts are
	// enough to answer with. They are enough from threshold on.
	Detect(ctx context.Context, lane wire.Lane, contexts [][][2]float32) (enough []float32, threshold float64, model string, err error)
}

// Judges rewrite questions and judge texts: a language model behind the gateway, or a substitute.
// An error in a reply is returned as an error.
type Judges interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Links are the links between passages of one document, stored when it was
// ingested.
type Links interface {
	// Links returns for each passage its k strongest links, strongest first. Like Texts it returns
	// only what is live, visible and of the generation, and it has the same errors.
	Links(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, passages []lexical.Ref, k int) (map[lexical.Ref][]Link, error)
}

// Link is a passage that another one is linked to.
type Link struct {
	To     lexical.Ref
	Weight float64 // attention, in [0, 1]
}

// Lexical is the lexical index.
type Lexical interface {
	// Open loads what searches for q's terms, groups and filter need, and clusters
	// when q is of clusters.
	Open(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (search.Searcher, error)
	// Open loads what searches for q's terms, groups and filter need, and the clusters if q's unit
	// is the cluster.
	OpenCached(tenant, collection uuid.UUID, q lexical.TermQuery) (s search.Searcher, ok bool)
}

// Vectors are the vectors of passages.
type Vectors interface {
	// Nearest returns the q.K passages nearest to q.Vector, best first and ties by passage id,
	// among those that are live, visible to the principal and matched by the filter. Errors:
	// schema.ErrNotFound for an unknown collection, *SpaceError if its vectors are of another
	// space, *GenerationError if another generation is live. A collection without vectors has no
	// hits.
	Nearest(ctx context.Context, q dense.NearestQuery) ([]dense.Hit, error)
	// VectorsOf returns the stored vectors of the passages that are live and visible to the
	// principal; those without one are left out. It returns a *GenerationError if another
	// generation than the query's is live.
	VectorsOf(ctx context.Context, q dense.PassagesQuery) (map[lexical.Ref][]float32, error)
}

// SpaceError says that the vectors of the model server and of the collection are of different
// spaces, so they cannot be compared.
type SpaceError struct {
	Collection uuid.UUID
	Stored     string
	Served     string
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("collection %s holds vectors of space %q but the model server serves %q: start gpu-segmenter with the model pack of %q, "+
		"or rebuild the collection with `sluice collections rebuild`", e.Collection, e.Stored, e.Served, e.Stored)
}

// Unwrap makes errors.Is(err, schema.ErrConflict) true.
func (e *SpaceError) Unwrap() error { return schema.ErrConflict }

// CollectionState is what a query needs to know about its collection.
type CollectionState struct {
	Language   string // BCP 47
	Generation int    // the live one
	Revision   int64  // of everything that searches read of it; equal revisions mean an unchanged state
	Space      string // of its vectors; empty: it has none
	Second     bool   // the vectors are the second encoder's
	// Segmentation is how its text is cut, with all settings.
	Segmentation schema.Segmentation
	// Paired is set if some documents may be near-duplicates of each other.
	Paired bool
	// Unindexed counts the visible versions that curation has not indexed yet: those ingested by an
	// older build.
	Unindexed int
}

// At is the state of a collection that a search works on.
type At struct {
	Generation int
	// Revision is the assumed revision, to be compared with the current one; 0: the state was read,
	// not assumed.
	Revision int64
}

// ChangedError says that a collection has changed since the state that a search assumed. The search
// starts again and reads the state first.
type ChangedError struct{ Collection uuid.UUID }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("collection %s has changed since it was searched last", e.Collection)
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true, as for a GenerationError.
func (e *ChangedError) Unwrap() error { return schema.ErrUnavailable }

// GenerationError says that the live generation of a collection is not the requested one: there the
// same refs may be other text.
type GenerationError struct {
	Collection uuid.UUID
	Asked      int
	Live       int
}

func (e *GenerationError) Error() string {
	return fmt.Sprintf("collection %s was rebuilt meanwhile: generation %d is live, and %d was asked of", e.Collection, e.Live, e.Asked)
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true: a retry succeeds.
func (e *GenerationError) Unwrap() error { return schema.ErrUnavailable }

// Text is a passage of a live version with its section, which holds its text.
type Text struct {
	Document   uuid.UUID
	ExternalID string
	Title      string
	Passage    schema.Passage
	Section    schema.Section
}

// Texts are the stored documents. All methods but CollectionState return only live versions that
// the principal may see: what was deleted after a stage found it is not in the results. Passages
// and clusters belong to a generation; methods that take one return a *GenerationError if it is no
// longer live.
type Texts interface {
	// CollectionState describes a collection. It returns schema.ErrNotFound if there is none.
	CollectionState(ctx context.Context, p schema.Principal, collection uuid.UUID) (CollectionState, error)
	// Texts returns the texts of passages. A ref of a section or of a version means its first
	// passage.
	Texts(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, refs []lexical.Ref) (map[lexical.Ref]Text, error)
	// ExternalIDs returns the external ids of the versions' documents.
	ExternalIDs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]string, error)
	// SectionRefs returns the sections of versions, in reading order.
	SectionRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) ([]lexical.Ref, error)
	// PassageRefs returns the passages of sections and versions, in reading order.
	PassageRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, places []lexical.Ref) ([]lexical.Ref, error)
	// Members returns the sections of each cluster, in reading order.
	Members(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, clusters []uuid.UUID) (map[uuid.UUID][]lexical.Ref, error)
	// ClustersOf returns the clusters of sections; sections without one are left out.
	ClustersOf(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, sections []lexical.Ref) (map[lexical.Ref]uuid.UUID, error)
}

// History is what a tenant's answered questions show about what the language model knows.
type History interface {
	// Known returns, for the k questions nearest to a vector of that space, nearest first, whether
	// an answer without retrieval was right. They are of the principal's tenant only; there may be
	// fewer than k. Imported questions count only if they were asked of that language model; model
	// is empty if it is not known.
	Known(ctx context.Context, p schema.Principal, space string, vector []float32, model string, k int) ([]bool, error)
}

// Preferences are the heads of llm_prefer that were trained for language models.
type Preferences interface {
	// Preferences returns the heads of a collection; most collections have none.
	Preferences(ctx context.Context, p schema.Principal, collection uuid.UUID) ([]Preference, error)
}

// Preference predicts which texts make a language model answer right that answers wrong without
// them.
type Preference struct {
	Model     string // provider and model, with a slash between
	Of        string // the graph on whose features it was trained
	Questions int    // that it was trained on
	Head      preference.Head
}

// NearDuplicates are the signatures by which documents are compared.
type NearDuplicates interface {
	// Paired returns what is needed to compare those of the versions that may have near-duplicates.
	// Like Texts it returns only what is live and visible.
	Paired(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]Compared, error)
}

// Compared is a document with what it is compared by.
type Compared struct {
	Document   uuid.UUID
	ExternalID string
	Title      string
	Metadata   schema.Metadata
	Uploaded   time.Time
	Signature  minhash.Signature
}
