// Package learn asks the language model questions whose answers are known: without retrieval, which
// trains FIT-RAG's recogniser of what the model knows (section 4.3), and with one text at a time,
// which labels texts for FIT-RAG's scorer (section 4.2.1). Every reply is stored as soon as it
// arrives, so that a later run pays for nothing twice.
package learn

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// noModelProvider is the provider without a language model.
const noModelProvider = "extractive"

// promptTokens is about how many tokens a call sends in addition to the question and the text.
const promptTokens = 400

// Asker calls the language model through the gateway. An error inside a reply is returned as an
// error.
type Asker interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Finder finds texts for a question, best first.
type Finder interface {
	Find(ctx context.Context, p schema.Principal, collection uuid.UUID, question string, k int) ([]schema.Candidate, error)
}

// Models is the model server.
type Models interface {
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
	ScoreWithFeatures(ctx context.Context, lane wire.Lane, question string, texts []string) (wire.ScoresWithFeatures, error)
}

// Answers is the right answers of a question.
type Answers interface {
	None() bool               // whether no answer has a word in it
	In(text string) bool      // whether a text contains one of them
	Accepts(text string) bool // whether a model's reply is right
}

// Of identifies what is learnt: about a question, in a tenant's collection, with a model.
type Of struct {
	Tenant, Collection uuid.UUID
	Question           [sha256.Size]byte
	Model              string
}

// Label says how useful a text is for a question.
type Label struct {
	Passage   [sha256.Size]byte // hash of the text as the pair model reads it
	Version   uuid.UUID
	HasAnswer bool
	Preferred bool
	Graph     string
	Features  []float32 // the graph's features, followed by its logits of has_answer and llm_prefer
}

// Store stores what is learnt.
type Store interface {
	// Taught returns whether the model was right without retrieval; nil: it was not asked.
	Taught(ctx context.Context, of Of) (*bool, error)
	Teach(ctx context.Context, of Of, space string, vector []float32, known bool) error
	// KeepQuestion stores a question with its answers, which the choice of the collection's plan
	// uses.
	KeepQuestion(ctx context.Context, of Of, q schema.LabelledQuestion) error
	// Labels returns the labels of a question's texts, by Passage.
	Labels(ctx context.Context, of Of) (map[[sha256.Size]byte]Label, error)
	KeepLabel(ctx context.Context, of Of, l Label) error
}

// Teacher labels questions.
type Teacher struct {
	Store   Store
	Asker   Asker
	Finder  Finder
	Models  Models
	Answers func(answers []string) Answers
}

// run is the labelling of one question.
type run struct {
	*Teacher
	principal schema.Principal
	labelling schema.Labelling
	of        Of
	answers   Answers
	out       schema.Labelled
}

// Label labels a question as far as its limits of calls and cost allow. With an error, it returns
// what was done before. Errors of the gateway are returned unchanged; a schema.FieldError says what
// is wrong with the question.
func (t *Teacher) Label(ctx context.Context, p schema.Principal, collection uuid.UUID, l schema.Labelling) (schema.Labelled, error) {
	if err := l.Check(); err != nil {
		return schema.Labelled{}, err
	}
	if l.Texts < 0 || l.Texts > schema.MaxLabelTexts {
		return schema.Labelled{}, schema.Invalid("texts", "needs a whole number from 0 to %d", schema.MaxLabelTexts)
	}
	r := run{Teacher: t, principal: p, labelling: l, answers: t.Answers(l.Answers)}
	if r.answers.None() {
		return schema.Labelled{}, schema.Invalid("answers", "none has a word in it")
	}
	model, err := t.Asker.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: p.Tenant, Task: wire.TaskWho})
	if err != nil {
		return schema.Labelled{}, fmt.Errorf("ask which language model answers: %w", err)
	}
	if model.Usage.Provider == noModelProvider {
		return schema.Labelled{}, schema.Invalid("provider", "%s answers here, which has no language model and knows nothing by itself: set one up (SLUICE_LLM_BASE_URL or a key)", noModelProvider)
	}
	r.out.Model = model.Usage.By()
	r.of = Of{Tenant: p.Tenant, Collection: collection, Question: l.Key(), Model: r.out.Model}
	known, err := r.plain(ctx)
	if err != nil || l.Texts == 0 {
		return r.out, err
	}
	return r.out, r.texts(ctx, known)
}

// plain finds out whether the model is right without retrieval. It returns nil if no call is left
// to ask it.
func (r *run) plain(ctx context.Context) (*bool, error) {
	known, err := r.Store.Taught(ctx, r.of)
	if err != nil {
		return nil, err
	}
	if known == nil {
		reply, asked, err := r.ask(ctx, wire.LLMRequest{Task: wire.TaskBackground}, text.CountTokens(r.labelling.Question))
		if err != nil {
			return nil, fmt.Errorf("ask without retrieval: %w", err)
		}
		if !asked {
			return nil, nil
		}
		right := reply.Text != "" && r.answers.Accepts(reply.Text)
		known = &right
		vectors, space, err := r.Models.EncodeQuery(wire.ForTenant(ctx, r.of.Tenant), wire.LaneBulk, r.labelling.Question, nil)
		if err != nil {
			return nil, fmt.Errorf("encode the question: %w", err)
		}
		if err := r.Store.Teach(context.WithoutCancel(ctx), r.of, space, vectors.Row(0), right); err != nil {
			return nil, err
		}
	}
	r.out.Known = known
	if r.labelling.Texts > 0 { // it is a training question, which was not imported
		return known, nil
	}
	return known, r.Store.KeepQuestion(context.WithoutCancel(ctx), r.of, r.labelling.LabelledQuestion)
}

// ask makes a call unless the limits are reached, in which case it counts the call as left.
func (r *run) ask(ctx context.Context, q wire.LLMRequest, tokens int) (reply wire.LLMReply, asked bool, err error) {
	l := r.labelling
	if r.out.Calls >= l.Calls || l.Cost > 0 && r.out.Usage.Cost >= l.Cost {
		r.out.Left++
		r.out.LeftTokens += tokens + promptTokens
		return reply, false, nil
	}
	q.Envelope, q.Tenant, q.Question, q.Trial = wire.Header(), r.of.Tenant, l.Question, true
	q.Step = wire.Step{Step: "trial"}
	q.Deadline, _ = ctx.Deadline()
	r.out.Calls++
	reply, err = r.Asker.Complete(ctx, q)
	if err != nil {
		return reply, true, err
	}
	r.out.Usage = r.out.Usage.Sum(reply.Usage)
	if by := reply.Usage.By(); by != r.of.Model {
		return reply, true, fmt.Errorf("%s answered where %s was asked: %w", by, r.of.Model, schema.ErrConflict)
	}
	return reply, true, nil
}

// found is a text in the form in which the pair model and the language model read it.
type found struct {
	schema.Candidate
	input string
	hash  [sha256.Size]byte
}

// texts finds and labels texts for the question.
func (r *run) texts(ctx context.Context, known *bool) error {
	all, err := r.find(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	labels, err := r.Store.Labels(ctx, r.of)
	if err != nil {
		return err
	}
	inputs := make([]string, len(all))
	for i, f := range all {
		inputs[i] = f.input
	}
	read, err := r.Models.ScoreWithFeatures(wire.ForTenant(ctx, r.of.Tenant), wire.LaneBulk, r.labelling.Question, inputs)
	if err != nil {
		return fmt.Errorf("score %d texts: %w", len(inputs), err)
	}
	if read.Features.Len() != len(inputs) {
		return schema.Invalid("pack", "the pair model of %s does not give what its labels are computed from (the output features): a preference is learnt with a pack whose graph does, such as the shipped ones", read.Model)
	}
	for i, f := range all {
		l, labelled := labels[f.hash]
		if !labelled {
			if l, labelled, err = r.label(ctx, f, known); err != nil {
				return err
			}
		}
		if !labelled {
			continue
		}
		if l.Graph != read.Of { // when the pair model changes, labels stay valid, but their features don't
			l.Graph, l.Features = read.Of, append(append([]float32(nil), read.Features.Row(i)...), read.Scores[i].HasAnswer, read.Scores[i].LLMPrefer)
			if err := r.Store.KeepLabel(context.WithoutCancel(ctx), r.of, l); err != nil {
				return err
			}
		}
		r.count(l)
	}
	return nil
}

func (r *run) count(l Label) {
	r.out.Texts++
	if l.HasAnswer {
		r.out.HaveAnswer++
	}
	if l.Preferred {
		r.out.Preferred++
	}
}

func (r *run) find(ctx context.Context) ([]found, error) {
	candidates, err := r.Finder.Find(ctx, r.principal, r.of.Collection, r.labelling.Question, r.labelling.Texts)
	if err != nil {
		return nil, fmt.Errorf("find texts: %w", err)
	}
	var out []found
	seen := map[[sha256.Size]byte]bool{}
	for _, c := range candidates {
		input, _ := text.InContext(c.Title, c.HeadingPath, c.Text)
		f := found{Candidate: c, input: input, hash: sha256.Sum256([]byte(input))}
		if len(c.Spans) == 0 || seen[f.hash] {
			continue
		}
		seen[f.hash] = true
		out = append(out, f)
	}
	return out, nil
}

// label returns the label of a text for the question. If the model is right without retrieval, no
// text can improve on that, and the model is not asked.
func (r *run) label(ctx context.Context, f found, known *bool) (Label, bool, error) {
	l := Label{Passage: f.hash, Version: f.Spans[0].Version, HasAnswer: r.answers.In(f.Text)}
	if known != nil && *known {
		return l, true, nil
	}
	reply, asked, err := r.ask(ctx, wire.LLMRequest{Task: wire.TaskAnswer, Prompt: "short", Versions: []uuid.UUID{l.Version},
		Passages: []wire.LLMPassage{{Title: f.Title, Location: f.Location, Headings: f.HeadingPath, Text: f.Text}}},
		text.CountTokens(f.Text)+text.CountTokens(r.labelling.Question))
	if err != nil {
		return l, false, fmt.Errorf("ask with a text: %w", err)
	}
	l.Preferred = reply.Supported && r.answers.Accepts(reply.Text)
	return l, asked, nil
}
