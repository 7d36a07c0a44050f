// Package retrieval finds the passages that may answer a question: package plan
// reads plans, package stage holds the stages, and package run runs them. This
// package is what they ask of the outside: the lexical index, the vectors, the
// texts and the model server. Every source shows an asker only what is live,
// visible to its groups and lets through by the filter.
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

// Sources are what stages draw on. Without Readers, Judges or Links the stages
// that need them say so.
type Sources struct {
	Model   Model
	Second  Second // may be nil: no collection has the second encoder's vectors
	Readers Readers
	Judges  Judges
	Lexical Lexical
	Vectors Vectors
	Texts   Texts
	Links   Links
	History History // may be nil: nothing is known of earlier questions
	// Preferences may be nil: llm_prefer is that of the pack's own reader.
	Preferences Preferences
	// NearDuplicates may be nil: documents are not compared.
	NearDuplicates NearDuplicates
	// GiveWay, if any, is called before each stage: it waits while others go first.
	GiveWay func(context.Context)
}

// Model is what stages ask of the model server.
type Model interface {
	// EncodeQuery returns a unit vector of a question, and of each passage behind it, a
	// zero vector for a text without a word that the model knows, and the name of the
	// vectors' space.
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
}

// Second is the second encoder, which some collections have the vectors of.
type Second interface {
	Model
	// Info says what it has learnt.
	Info(ctx context.Context) (wire.ModelInfo, error)
}

// Readers are the model server's models that read texts. Errors are as the
// server gives them; what a pack has no graph for is asked of nobody.
type Readers interface {
	// Info says which operations the model pack has graphs for, and its
	// calibrated thresholds.
	Info(ctx context.Context) (wire.ModelInfo, error)
	// Score says of each text how well it answers the question; answers asks
	// for the spans that do.
	Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// ScoreFeatured is Score with what the pair model's labels are computed from,
	// where its graph gives that.
	ScoreFeatured(ctx context.Context, lane wire.Lane, question string, texts []string) (wire.Featured, error)
	// Rerank is Score by the pack's reranker.
	Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error)
	// Fuse says of each text how much an answer would draw on it when all are
	// read together; tokens of a text represent it, and of the question too if
	// withQuestion.
	Fuse(ctx context.Context, lane wire.Lane, question string, texts []string, tokens int, withQuestion bool) (scores []float32, model string, err error)
	// Detect says of each list of (has_answer, llm_prefer) how likely its texts
	// are enough to answer with; from threshold on they are.
	Detect(ctx context.Context, lane wire.Lane, contexts [][][2]float32) (enough []float32, threshold float64, model string, err error)
}

// Judges word questions anew and judge texts: a language model behind the gateway,
// or what stands in for one. An error inside a reply comes out as an error.
type Judges interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Links are the links between passages of one document, stored when it was
// ingested.
type Links interface {
	// Links returns, for each passage, the strongest k that it is linked to,
	// strongest first. It shows what is live, visible and of the generation, as
	// Texts do, and fails as they do.
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
	// OpenCached is Open by what is in memory alone, which may be out of date: nobody is
	// asked. ok is false where memory lacks some of it.
	OpenCached(tenant, collection uuid.UUID, q lexical.TermQuery) (s search.Searcher, ok bool)
}

// Vectors are the vectors of passages.
type Vectors interface {
	// Nearest returns the q.K passages nearest to q.Vector, best first, equal
	// ones by passage id, among the passages that are live, that the principal
	// may see and that match the filter. An unknown collection
	// gives schema.ErrNotFound, one without vectors none, one whose vectors
	// are of another space a *SpaceError, one of which another generation is
	// live a *GenerationError.
	Nearest(ctx context.Context, q dense.NearestQuery) ([]dense.Hit, error)
}

// SpaceError says that the model server makes vectors of one space and the
// collection holds vectors of another, so they cannot be compared.
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

// CollectionState is what a query needs to know of its collection.
type CollectionState struct {
	Language   string // BCP 47
	Generation int    // that is live
	Revision   int64  // of what searches read of it: while that is the same, so is the rest
	Space      string // of its vectors; empty: there are none
	Second     bool   // the vectors are the second encoder's
	// Segmentation is how its text is cut, with every setting.
	Segmentation schema.Segmentation
	// Paired: some documents may be near-duplicates of each other.
	Paired bool
	// Unindexed counts the visible versions that curation has yet to index:
	// those that an older build ingested.
	Unindexed int
}

// At is the state of a collection that a search works on.
type At struct {
	Generation int
	// Revision is that which a search took for granted and that is to be compared with
	// what is; 0: it was asked for.
	Revision int64
}

// ChangedError says that a collection is no longer as a search took for granted. It
// begins again, and asks first.
type ChangedError struct{ Collection uuid.UUID }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("collection %s has changed since it was searched last", e.Collection)
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true, as for a GenerationError.
func (e *ChangedError) Unwrap() error { return schema.ErrUnavailable }

// GenerationError says that a collection's live generation is another than the
// one that was asked of: what a place holds is cut differently there.
type GenerationError struct {
	Collection uuid.UUID
	Asked      int
	Live       int
}

func (e *GenerationError) Error() string {
	return fmt.Sprintf("collection %s was rebuilt meanwhile: generation %d is live, and %d was asked of", e.Collection, e.Live, e.Asked)
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true: asked again, the
// same question is answered.
func (e *GenerationError) Unwrap() error { return schema.ErrUnavailable }

// Text is a passage of a live version with its section, which holds its text.
type Text struct {
	Document   uuid.UUID
	ExternalID string
	Title      string
	Passage    schema.Passage
	Section    schema.Section
}

// Texts are the stored documents. All but Place restrict what they return to
// live versions that the principal may see: what was deleted since a stage
// found it is not in the results. Those that take a generation, to which alone
// passages and clusters belong, give a *GenerationError when it is no longer live.
type Texts interface {
	// CollectionState describes a collection; schema.ErrNotFound where there is none.
	CollectionState(ctx context.Context, p schema.Principal, collection uuid.UUID) (CollectionState, error)
	// Texts returns the texts of passages. The ref of a section or of a
	// version stands for its first passage.
	Texts(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, refs []lexical.Ref) (map[lexical.Ref]Text, error)
	// ExternalIDs names the documents of versions.
	ExternalIDs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]string, error)
	// SectionRefs returns the sections of versions, in reading order.
	SectionRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) ([]lexical.Ref, error)
	// PassageRefs returns the passages of sections and versions, in reading order.
	PassageRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, places []lexical.Ref) ([]lexical.Ref, error)
	// Members returns the sections of clusters by cluster, in reading order.
	Members(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, clusters []uuid.UUID) (map[uuid.UUID][]lexical.Ref, error)
	// ClustersOf returns the clusters of sections; one without is left out.
	ClustersOf(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, sections []lexical.Ref) (map[lexical.Ref]uuid.UUID, error)
	// VectorsOf returns the stored vectors of passages.
	VectorsOf(ctx context.Context, p schema.Principal, collection uuid.UUID, at At, passages []lexical.Ref) (map[lexical.Ref][]float32, error)
}

// History is what a tenant's answered questions say of what the language model knows.
type History interface {
	// Known says of the k questions nearest to a vector of that space, nearest
	// first, whether an answer without retrieval was right. They are of the
	// principal's tenant alone; there may be fewer. Imported ones count where that
	// language model was asked, which is empty when it is not known.
	Known(ctx context.Context, p schema.Principal, space string, vector []float32, model string, k int) ([]bool, error)
}

// Preferences are heads of llm_prefer that were learnt for language models.
type Preferences interface {
	// Preferences returns those of a collection; most have none.
	Preferences(ctx context.Context, p schema.Principal, collection uuid.UUID) ([]Preference, error)
}

// Preference is which texts a language model answers right with, and not without.
type Preference struct {
	Model     string // provider and model, with a slash between
	Of        string // the graph on whose features it was learnt
	Questions int    // that it was learnt from
	Head      preference.Head
}

// NearDuplicates is by what documents are compared with each other.
type NearDuplicates interface {
	// Paired returns, of these versions, what those are compared by that may have
	// near-duplicates. It shows what is live and visible, as Texts do.
	Paired(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]Compared, error)
}

// Compared is a document as it is compared with others.
type Compared struct {
	Document   uuid.UUID
	ExternalID string
	Title      string
	Metadata   schema.Metadata
	Uploaded   time.Time
	Signature  minhash.Signature
}
