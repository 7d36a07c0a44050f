package planchoice

// This file makes questions from the passages of a collection. A language model writes them if
// there is one; otherwise rules make them from sentences. In either case the reader must find the
// answer again, and no other document may answer.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/suggest"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// maxDocuments bounds the documents that are read for questions, maxSections the sections of
	// each.
	maxDocuments, maxSections = 400, 40
	// maxDocumentShare is the share of the questions that one document may have. It may have
	// minPerDocument in any case.
	maxDocumentShare, minPerDocument = 0.1, 3
	// maxCopiedShare bounds the share of a written question's words that occur in the sentence that
	// answers it.
	maxCopiedShare = 0.7
	// excerptTokens is how many tokens of a section a language model is shown.
	excerptTokens = 250
	// maxFailures is how many consecutive failures end the use of the language model.
	maxFailures = 3
)

// promptAsk is the gateway's prompt for a question about a text.
const promptAsk = "ask"

// noModelProvider is the name of the provider without a language model.
const noModelProvider = "extractive"

// maker makes the questions of one choice.
type maker struct {
	chooser  *Chooser
	task     Task
	reader   answerReader
	random   *rand.Rand
	refusals int
	hasModel bool // a language model may be asked

	out      []Gathered
	seen     map[string]bool
	attempts int
	overlaps float64
	notes    []string
}

// makeQuestions makes up to want questions until a time. If the pack has no reader it makes none,
// and returns a note.
func (c *Chooser) makeQuestions(ctx context.Context, t Task, want int, until time.Time) (_ []Gathered, notes []string, err error) {
	m := &maker{chooser: c, task: t, hasModel: c.hasModel(ctx, t.Principal.Tenant), seen: map[string]bool{},
		random: rand.New(rand.NewPCG(uint64(t.ID[14])<<8|uint64(t.ID[15]), uint64(t.ID[12])<<8|uint64(t.ID[13])))}
	if m.reader, err = newReading(ctx, c.Reader(t.Principal.Tenant)); errors.Is(err, errNoReader) {
		return nil, []string{"no question was made of passages: " + err.Error()}, nil
	} else if err != nil {
		return nil, nil, err
	}
	documents, err := c.Store.SampleDocuments(ctx, t.Principal, t.CollectionID, t.ID, maxDocuments)
	if err != nil {
		return nil, nil, err
	}
	each := max(int(maxDocumentShare*float64(want)), minPerDocument, want/max(len(documents), 1)+1)
	// Take one question of each document before the next, so that the first questions are about
	// many documents.
	var pending [][]func() error
	for _, d := range documents {
		if time.Now().After(until) {
			break
		}
		sections, err := c.Store.SampleSections(ctx, t.Principal, d, t.ID, maxSections)
		if err != nil {
			return nil, nil, err
		}
		pending = append(pending, m.ofDocument(ctx, sections, each))
	}
	for len(pending) > 0 && len(m.out) < want {
		left := pending[:0]
		for _, tries := range pending {
			if len(m.out) == want || len(tries) == 0 {
				continue
			}
			if time.Now().After(until) {
				m.notes = append(m.notes, "the time for making questions was over")
				return m.done()
			}
			if err := tries[0](); err != nil {
				return nil, nil, err
			}
			if len(tries) > 1 {
				left = append(left, tries[1:])
			}
		}
		pending = left
	}
	return m.done()
}

// hasModel reports whether there is a language model to write questions. If the gateway does not
// name its provider the answer is true: the first request returns the error.
func (c *Chooser) hasModel(ctx context.Context, tenant uuid.UUID) bool {
	if c.Writer == nil {
		return false
	}
	reply, err := c.Writer.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: tenant, Task: wire.TaskWho})
	return err != nil || reply.Usage.Provider != noModelProvider
}

func (m *maker) done() ([]Gathered, []string, error) {
	if n := len(m.out); n > 0 {
		m.notes = append(m.notes, fmt.Sprintf("%d of %d questions that were tried came back with their answer from one document alone; "+
			"of their words %.0f %% are in the sentence that answers them",
			n, m.attempts, 100*m.overlaps/float64(n)))
	}
	return m.out, m.notes, nil
}

// ofDocument returns attempts to make questions about a document. Each makes at most one.
func (m *maker) ofDocument(ctx context.Context, sections []Sampled, each int) []func() error {
	var out []func() error
	count := 0
	try := func(do func() (bool, error)) {
		out = append(out, func() error {
			if count >= each {
				return nil
			}
			ok, err := do()
			if ok {
				count++
			}
			return err
		})
	}
	if len(sections) == 0 {
		return nil
	}
	plain := make([]schema.Section, len(sections))
	for i, s := range sections {
		plain[i] = s.Section
		if i < each {
			try(func() (bool, error) { return m.write(ctx, s) })
		}
	}
	for _, q := range suggest.Order(suggest.Questions(sections[0].ExternalID, plain)) {
		if q.Evidence == "" || q.Subject == "" {
			continue // its answer is unknown, or the text itself asks it
		}
		try(func() (bool, error) { return m.template(ctx, sections, q) })
	}
	return out
}

// template tries the wordings of a question that a rule made from a sentence.
func (m *maker) template(ctx context.Context, sections []Sampled, q suggest.Suggestion) (bool, error) {
	s, ok := sourceOf(sections, q.Evidence)
	if !ok {
		return false, nil
	}
	for _, question := range rewordings(q.Text, q.Subject) {
		if m.seen[question] {
			continue
		}
		m.seen[question] = true
		answer, _, err := m.attempt(ctx, question, s)
		if err != nil {
			return false, err
		}
		if answer != "" {
			m.keep(schema.QuestionMade, question, answer, q.Evidence, s)
			return true, nil
		}
	}
	return false, nil
}

func (m *maker) attempt(ctx context.Context, question string, s origin) (answer, evidence string, err error) {
	m.attempts++
	return m.roundTrip(ctx, question, s)
}

func (m *maker) keep(from schema.QuestionSource, question, answer, evidence string, s origin) {
	m.overlaps += evaluate.Overlap(question, evidence)
	m.out = append(m.out, Gathered{DocumentIDs: []uuid.UUID{s.document}, ChoiceQuestion: schema.ChoiceQuestion{Source: from, Evidence: evidence,
		LabelledQuestion: schema.LabelledQuestion{Question: question, Documents: []string{s.externalID}, Answers: []string{strings.TrimSpace(answer)}}}})
}

// sourceOf finds the section of a sentence. It returns the sentence with its neighbours.
func sourceOf(sections []Sampled, sentence string) (origin, bool) {
	for _, s := range sections {
		all := text.Sentences(s.Section.Text)
		for i, r := range all {
			if !strings.Contains(strings.Join(strings.Fields(r.Of(s.Section.Text)), " "), sentence) {
				continue
			}
			from, to := all[max(i-1, 0)].Start, all[min(i+1, len(all)-1)].End
			body := s.Section.Text[from:to]
			lead := len(body) - len(strings.TrimLeft(body, " \t\r\n"))
			body = strings.TrimSpace(body)
			return origin{document: s.Document, externalID: s.ExternalID, title: s.Title, headings: s.Section.HeadingPath, text: body,
				evidence: text.Range{Start: max(r.Start-from-lead, 0), End: min(r.End-from-lead, len(body))}}, true
		}
	}
	return origin{}, false
}

// write has a language model write a question about a section.
func (m *maker) write(ctx context.Context, s Sampled) (bool, error) {
	if !m.hasModel {
		return false, nil
	}
	body := m.excerpt(s.Section.Text)
	if body == "" {
		return false, nil
	}
	reply, err := m.chooser.Writer.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: m.task.Principal.Tenant, Task: wire.TaskRewrite, Prompt: promptAsk,
		Step: wire.Step{Step: "question for a choice of plans"}, Question: body})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, schema.ErrInvalid): // there is no language model
		m.hasModel = false
		return false, nil
	case err != nil:
		slog.WarnContext(ctx, "the language model wrote no question about a passage", "tenant", m.task.Principal.Tenant, "collection", m.task.CollectionID, "error", err)
		if m.refusals++; m.refusals >= maxFailures {
			m.hasModel = false
			m.notes = append(m.notes, "the language model was asked no more after it failed: "+err.Error())
		}
		return false, nil
	}
	m.refusals = 0
	question := reply.Text
	if m.seen[question] || len(question) > 300 {
		return false, nil
	}
	m.seen[question] = true
	from := origin{document: s.Document, externalID: s.ExternalID, title: s.Title, headings: s.Section.HeadingPath, text: body, evidence: text.Range{End: len(body)}}
	answer, evidence, err := m.attempt(ctx, question, from)
	if err != nil || answer == "" || evaluate.Overlap(question, evidence) > maxCopiedShare {
		return false, err
	}
	m.keep(schema.QuestionWritten, question, answer, evidence, from)
	return true, nil
}

// excerpt returns a run of sentences of a section, from a random beginning.
func (m *maker) excerpt(body string) string {
	all := text.Sentences(body)
	if len(all) == 0 {
		return ""
	}
	begin := m.random.IntN(len(all))
	tokens, end := 0, begin
	for end < len(all) && tokens < excerptTokens {
		tokens += text.CountTokens(all[end].Of(body))
		end++
	}
	return strings.TrimSpace(body[all[begin].Start:all[end-1].End])
}
