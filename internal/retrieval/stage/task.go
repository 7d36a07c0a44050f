package stage

// This file defines one run of a plan: the question in the forms that stages need (terms, vector),
// each made once, and the clusters and texts that the run has loaded.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var errBounds = errors.New("the passage lies outside its section's text")

const (
	// MaxK is the most candidates that a query may ask for.
	MaxK = 100
	// DefaultK is how many candidates are returned, and make the context, if neither the query nor
	// the plan sets a number.
	DefaultK = 10
)

// Task is one run of a plan. Its methods are not safe for concurrent use, except search and score
// of components after prepare.
type Task struct {
	retrieval.Sources
	pack *Pack
	// encoderShare is the share of the question in scripts that the encoder was trained on.
	encoderShare   float64
	query          wire.SearchQuery // its text is the rewritten question, after the stage rewrite
	asked          string           // the original question
	stage          int              // the running one, from 0
	wanted         int              // candidates of the first stage; 0: all
	Skipped        bool             // the question is answered without the candidates
	state          retrieval.CollectionState
	assumedCurrent bool // no source has confirmed the state yet

	analyzer          *lexical.Analyzer // of the collection's language; made with terms
	terms             []string          // of the question; made by prepare
	byName            bool              // a stage searches the field identity
	names             []string          // terms of the question that may name documents; made with terms, if byName
	analysed          bool
	index             search.Searcher     // opened by the first search
	clusters          bool                // index was opened with clusters
	statistics        *lexical.Statistics // of terms in sections; nil: not loaded yet
	vector            []float32           // nil: the model knows no word of the question
	space             string
	encoded           bool
	hypothetical      string // a passage that would answer the question, whose vector is averaged with the question's; empty: none
	secondUnavailable bool   // the second encoder did not answer
	answers           answerModel
	preferred         preferences

	clusterOf map[lexical.Ref]uuid.UUID // of sections
	members   map[uuid.UUID][]lexical.Ref
	texts     map[lexical.Ref]retrieval.Text
	missing   map[lexical.Ref]bool // refs without a text
}

// NewTask begins a run of stages on the live generation of the collection; schema.ErrNotFound if
// there is no collection. With assume the run may use the state that known has cached. Then the
// first source that it reads from may return a *retrieval.ChangedError, and Confirm checks at the
// end whether the state was current.
func NewTask(ctx context.Context, s retrieval.Sources, p *Pack, known *StateCache, assume bool, q wire.SearchQuery, stages []Stage) (*Task, error) {
	var state retrieval.CollectionState
	var err error
	assumed := false
	if assume {
		state, assumed = known.stable(q)
	}
	if !assumed {
		if state, err = s.Texts.CollectionState(ctx, q.Principal, q.Collection); err != nil {
			return nil, err
		}
		known.record(q, state)
	}
	byName := slices.ContainsFunc(stages, func(s Stage) bool { return slices.Contains(s.Scores, identityScorer) })
	return &Task{Sources: s, pack: p, query: q, wanted: candidatesUsed(q, stages), asked: q.Text, state: state, assumedCurrent: assumed, byName: byName, clusterOf: map[lexical.Ref]uuid.UUID{},
		members: map[uuid.UUID][]lexical.Ref{}, texts: map[lexical.Ref]retrieval.Text{}, missing: map[lexical.Ref]bool{}}, nil
}

// candidatesUsed returns how many candidates of a plan's first stage are used: as many as the next
// stage takes and the result shows, and twice that to replace candidates whose text was deleted; 0:
// all.
func candidatesUsed(q wire.SearchQuery, stages []Stage) int {
	if q.Documents > 0 || q.Explain || len(stages) < 2 || stages[1].Takes == 0 {
		return 0
	}
	return 2 * max(stages[1].Takes, q.K, DefaultK)
}

// limitCandidates returns k, or less if the running stage needs fewer candidates.
func (t *Task) limitCandidates(k int) int {
	if t.stage > 0 || t.wanted == 0 {
		return k
	}
	return min(k, t.wanted)
}

// prepare makes the forms of the question that components need.
func (t *Task) prepare(ctx context.Context, components ...component) error {
	for _, c := range components {
		if err := c.prepare(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (t *Task) analyse() error {
	if t.analysed {
		return nil
	}
	var err error
	if t.analyzer, err = lexical.NewAnalyzer(t.state.Language); err != nil {
		return fmt.Errorf("analyse the question as %q: %w", t.state.Language, err)
	}
	t.terms, t.analysed = t.analyzer.Terms(t.query.Text), true
	t.names = nil
	if t.byName {
		t.names = identity.Asked(t.query.Text, t.analyzer.Terms)
		for i, name := range t.names {
			t.names[i] = segment.IdentityTerm(name)
		}
	}
	return nil
}

// readAt calls a source that reports whether the collection still is in the state that the run
// assumes.
func readAt[T any](t *Task, ask func(at retrieval.At) (T, error)) (T, error) {
	at := retrieval.At{Generation: t.state.Generation}
	if t.assumedCurrent {
		at.Revision = t.state.Revision
	}
	out, err := ask(at)
	if err == nil {
		t.assumedCurrent = false
	}
	return out, err
}

// Confirm checks that the assumed state was current, if no source has confirmed it. It returns a
// *retrieval.ChangedError if it was not.
func (t *Task) Confirm(ctx context.Context) error {
	if !t.assumedCurrent {
		return nil
	}
	_, err := readAt(t, func(at retrieval.At) (map[lexical.Ref]retrieval.Text, error) {
		return t.Texts.Texts(ctx, t.query.Principal, t.query.Collection, at, nil)
	})
	return err
}

func (t *Task) encode(ctx context.Context) error {
	if t.encoded {
		return nil
	}
	var err error
	if t.state.Second && t.Second != nil && !t.secondUnavailable {
		second, cancel := context.WithTimeout(ctx, secondTimeout)
		t.vector, t.space, err = t.encodeWith(second, t.Second)
		cancel()
		if err == nil || !unavailable(err) || ctx.Err() != nil {
			t.encoded = err == nil
			return err
		}
	}
	t.vector, t.space, err = t.encodeWith(ctx, t.Model)
	t.encoded = err == nil
	return err
}

// secondTimeout is how long a question waits for the second encoder's vector; after that units are
// found by BM25.
const secondTimeout = time.Second

func unavailable(err error) bool {
	return errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrOverloaded)
}

// encodeWith returns the question's vector, nil if the model knows no word of it, and its space.
func (t *Task) encodeWith(ctx context.Context, m retrieval.Model) (vector []float32, space string, err error) {
	var hypothetical []string
	if t.hypothetical != "" {
		hypothetical = []string{t.hypothetical}
	}
	vectors, space, err := m.EncodeQuery(ctx, wire.LaneInteractive, t.query.Text, hypothetical)
	if err != nil {
		return nil, "", fmt.Errorf("encode the question: %w", err)
	}
	if vectors.Len() != 1+len(hypothetical) {
		return nil, "", fmt.Errorf("encode the question: the model server gave %d vectors for %d texts", vectors.Len(), 1+len(hypothetical))
	}
	if v := meanOf(vectors); !isZero(v) {
		vector = v
	}
	return vector, space, nil
}

// meanOf returns the mean of vectors at unit length; the zero vector if their mean is zero.
func meanOf(vectors wire.Vectors) []float32 {
	if vectors.Len() == 1 {
		return vectors.Row(0)
	}
	sum, length := make([]float32, vectors.Dimension), 0.0
	for i := range sum {
		for row := range vectors.Len() {
			sum[i] += vectors.Row(row)[i]
		}
		length += float64(sum[i]) * float64(sum[i])
	}
	if length > 0 {
		for i := range sum {
			sum[i] /= float32(math.Sqrt(length))
		}
	}
	return sum
}

func isZero(v []float32) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

// refsOf returns the refs of candidates: their own, or those of a cluster's sections.
func (t *Task) refsOf(ctx context.Context, places []key) ([]lexical.Ref, error) {
	var clusters []uuid.UUID
	for _, k := range places {
		if k.cluster != uuid.Nil {
			clusters = append(clusters, k.cluster)
		}
	}
	if err := t.expand(ctx, clusters); err != nil {
		return nil, err
	}
	out := make([]lexical.Ref, 0, len(places))
	for _, k := range places {
		if k.cluster == uuid.Nil {
			out = append(out, k.ref)
			continue
		}
		out = append(out, t.members[k.cluster]...)
	}
	return out, nil
}

// expand loads the sections of clusters. A section that is in no cluster yet is a cluster of its
// own, whose id only the index can resolve; it has a term of the question, or it would not have
// been found.
func (t *Task) expand(ctx context.Context, clusters []uuid.UUID) error {
	var unknown []uuid.UUID
	for _, c := range clusters {
		if _, ok := t.members[c]; !ok {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := readAt(t, func(at retrieval.At) (map[uuid.UUID][]lexical.Ref, error) {
		return t.Texts.Members(ctx, t.query.Principal, t.query.Collection, at, unknown)
	})
	if err != nil {
		return err
	}
	filtered := len(t.query.Filter) > 0
	if filtered {
		if err := t.analyse(); err != nil {
			return err
		}
		if err := t.openIndex(ctx, false); err != nil {
			return err
		}
	}
	alone := map[uuid.UUID]bool{}
	for _, c := range unknown {
		t.members[c] = nil
		for _, r := range found[c] {
			if !filtered || t.index.Passes(r.Version) {
				t.members[c] = append(t.members[c], r)
				t.clusterOf[r] = c
			}
		}
		if len(found[c]) == 0 {
			alone[c] = true
		}
	}
	if len(alone) == 0 {
		return nil
	}
	if err := t.analyse(); err != nil {
		return err
	}
	result, err := t.searchIndex(ctx, t.narrowed(lexical.TermQuery{Unit: schema.UnitSection, Terms: t.terms,
		K: unlimited, Settings: lexical.Defaults, Within: &lexical.Within{Clusters: alone}}))
	if err != nil {
		return fmt.Errorf("find the sections of clusters: %w", err)
	}
	for _, h := range result.Hits {
		if c := lexical.SingletonCluster(h.Ref.Version, h.Ref.Section); alone[c] {
			t.members[c] = append(t.members[c], h.Ref)
			t.clusterOf[h.Ref] = c
		}
	}
	return nil
}

// locate loads the clusters of the sections that places lie in.
func (t *Task) locate(ctx context.Context, places []lexical.Ref) error {
	var unknown []lexical.Ref
	seen := map[lexical.Ref]bool{}
	for _, r := range places {
		r = enclosingRef(r, schema.UnitSection)
		if _, ok := t.clusterOf[r]; !ok && !seen[r] {
			seen[r] = true
			unknown = append(unknown, r)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := readAt(t, func(at retrieval.At) (map[lexical.Ref]uuid.UUID, error) {
		return t.Texts.ClustersOf(ctx, t.query.Principal, t.query.Collection, at, unknown)
	})
	if err != nil {
		return err
	}
	for _, r := range unknown {
		c, ok := found[r]
		if !ok {
			c = lexical.SingletonCluster(r.Version, r.Section)
			t.members[c] = []lexical.Ref{r}
		}
		t.clusterOf[r] = c
	}
	return nil
}

// enclosing returns the unit that a passage, section or document lies in. For clusters, locate must
// have been called for its section.
func (t *Task) enclosing(r lexical.Ref, unit schema.Unit) key {
	if unit == schema.UnitCluster {
		return key{cluster: t.clusterOf[enclosingRef(r, schema.UnitSection)]}
	}
	return key{ref: enclosingRef(r, unit)}
}

// parents returns candidates by key, to be found from a smaller unit.
func (t *Task) parents(items []item) map[key]item {
	out := make(map[key]item, len(items))
	for _, c := range items {
		out[c.key] = c
	}
	return out
}

// load loads the texts of refs that are not loaded yet.
func (t *Task) load(ctx context.Context, refs []lexical.Ref) error {
	var missing []lexical.Ref
	seen := map[lexical.Ref]bool{}
	for _, r := range refs {
		if _, ok := t.texts[r]; !ok && !t.missing[r] && !seen[r] {
			seen[r] = true
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := readAt(t, func(at retrieval.At) (map[lexical.Ref]retrieval.Text, error) {
		return t.Texts.Texts(ctx, t.query.Principal, t.query.Collection, at, missing)
	})
	if err != nil {
		return err
	}
	for _, r := range missing {
		text, ok := found[r]
		if p := text.Passage; ok && (p.Start < 0 || p.End > len(text.Section.Text) || p.Start >= p.End) {
			return fmt.Errorf("passage %s [%d, %d): %w", p.ID, p.Start, p.End, errBounds)
		}
		if ok {
			t.texts[r] = text
		} else {
			t.missing[r] = true
		}
	}
	return nil
}

// vectorsIncomparable reports whether the vectors of the question and the collection are of
// different spaces.
func (t *Task) vectorsIncomparable() bool {
	return t.encoded && t.state.Space != "" && t.space != t.state.Space
}

// VectorsSkipped returns a step that says that vectors were not used because the collection's are
// of another space than the model server's; none if they were used.
func (t *Task) VectorsSkipped() []Step {
	if !t.vectorsIncomparable() {
		return nil
	}
	remedy := "`sluice collections rebuild` encodes the collection anew"
	if t.state.Second {
		remedy = "start the second encoder's model server with the pack of that space (SLUICE_SECOND_PACK), or rebuild the collection with `--encoder first`"
	}
	return []Step{{name: schema.StageVectors, outcome: outcome{why: fmt.Sprintf("the collection's vectors are of space %s, the question's of space %s: "+
		"only words were compared; %s", t.state.Space, t.space, remedy)}}}
}

// SegmentationMismatch returns a step that says that the collection has another segmentation than
// the plan is meant for. It returns none if they agree or either is not known.
func (t *Task) SegmentationMismatch(wants schema.Segmentation) []Step {
	has := t.state.Segmentation
	if wants == (schema.Segmentation{}) || has == (schema.Segmentation{}) {
		return nil
	}
	if complete, err := has.Complete(); err == nil {
		has = complete
	}
	if has == wants {
		return nil
	}
	return []Step{{name: "segmentation", outcome: outcome{why: fmt.Sprintf("the collection is cut by %s; the plan is meant for %s", has, wants)}}}
}
