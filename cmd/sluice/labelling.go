package main

// This file makes the server label questions one by one, within a budget. The server keeps the
// labels, so that the next run goes on.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// callsAtOnce is the maximum number of calls of the language model in one request, so that the
// request ends in time.
const callsAtOnce = 4

// labelFlags has the flags of commands that label questions with the language model.
type labelFlags struct {
	remote
	Collection string  `required:"" short:"c" help:"Name or id of the collection."`
	Calls      int     `placeholder:"N" help:"Make so many calls of the language model at most; 0 means no limit."`
	Cost       float64 `placeholder:"DOLLARS" help:"Begin no call once so much is spent, at the server's prices; 0 means no limit."`
	Limit      int     `placeholder:"N" help:"So many of the questions, drawn by their hashes; 0 is all."`
	Parallel   int     `default:"2" help:"Questions at once."`
	DryRun     bool    `help:"Say how many calls there are to make, and make none."`
}

// labelResult is the result of a run.
type labelResult struct {
	Model      string       `json:"model"`
	Questions  int          `json:"questions"`
	Done       int          `json:"done"`  // questions with nothing left to ask
	Known      int          `json:"known"` // answered correctly without retrieval
	Asked      int          `json:"asked"` // questions answered without retrieval so far
	Texts      int          `json:"texts"`
	HaveAnswer int          `json:"have_answer"`
	Preferred  int          `json:"preferred"`
	Calls      int          `json:"calls"`
	Left       int          `json:"left"`   // maximum number of calls that are left
	Unseen     int          `json:"unseen"` // questions that were not started for lack of budget
	LeftTokens int          `json:"left_tokens"`
	Usage      schema.Usage `json:"usage"`
	Stopped    string       `json:"stopped,omitempty"` // why it ended early
	Failures   []string     `json:"failures,omitempty"`

	mu sync.Mutex
}

// budget is what is left of the bounds on calls and cost.
type budget struct {
	mu       sync.Mutex
	settled  *sync.Cond // uses mu
	bounded  bool
	calls    int
	reserved int     // reservations that are not settled yet
	dollars  float64 // what is left; 0 unless costly
	costly   bool
	parallel int
}

// budget returns the budget that the flags set. In a dry run it has no calls.
func (l *labelFlags) budget() *budget {
	b := &budget{bounded: l.Calls > 0 || l.DryRun, calls: l.Calls, costly: l.Cost > 0, dollars: l.Cost, parallel: l.Parallel}
	if l.DryRun {
		b.calls = 0
	}
	b.settled = sync.NewCond(&b.mu)
	return b
}

// reserve reserves up to limit calls, and returns how much they may cost: the remaining dollars
// divided by the number of parallel questions. If all calls are reserved, it waits until some are
// settled. The caller must call settle if calls is not 0.
func (b *budget) reserve(limit int) (calls int, dollars float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bounded && b.calls == 0 && b.reserved > 0 {
		b.settled.Wait()
	}
	if b.costly && b.dollars <= 0 {
		return 0, 0
	}
	calls = limit
	if b.bounded {
		calls = min(limit, b.calls)
		b.calls -= calls
	}
	if b.costly {
		dollars = b.dollars / float64(b.parallel)
	}
	if calls > 0 {
		b.reserved++
	}
	return calls, dollars
}

// settle ends a reservation. unused is the number of its calls that were not made, and dollars the
// cost of the others.
func (b *budget) settle(unused int, dollars float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls += unused
	b.dollars -= dollars
	b.reserved--
	b.settled.Broadcast()
}

// errNoPrice is the error of a bound in dollars on a model without a price.
var errNoPrice = errors.New("the server knows no price of the language model, so --cost has no effect: set one (SLUICE_LLM_PRICE), or use --calls")

// interrupted is an error after some calls were made.
type interrupted struct{ schema.Labelled }

func (e *interrupted) Error() string { return e.Problem }

const budgetExhausted = "the budget is used up"

// run labels questions with a number of texts each.
func (l *labelFlags) run(ctx context.Context, client *apiclient.Client, questions []schema.LabelledQuestion, texts int, what string) (*labelResult, error) {
	if l.Calls < 0 || l.Cost < 0 || l.Limit < 0 || l.Parallel < 1 || l.Parallel > 64 {
		return nil, schema.Invalid("calls, cost, limit, parallel", "must be 0 or more (parallel: from 1 to 64)")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	questions = sampleQuestions(questions, l.Limit)
	out := &labelResult{Questions: len(questions)}
	b := l.budget()
	bar := newCounter(os.Stderr, what)
	defer bar.end()
	next := make(chan schema.LabelledQuestion)
	var workers sync.WaitGroup
	seen := 0
	for range l.Parallel {
		workers.Go(func() {
			for q := range next {
				last, err := l.label(ctx, client, q, texts, b, out)
				out.mu.Lock()
				var partly *interrupted
				if errors.As(err, &partly) {
					out.add(partly.Labelled)
				}
				if err != nil && stops(err) {
					if out.Stopped == "" && !errors.Is(err, context.Canceled) {
						out.Stopped = err.Error()
					}
					stop(err)
				} else if err != nil {
					out.Failures = append(out.Failures, fmt.Sprintf("%.60q: %s", q.Question, err))
				} else {
					out.add(last)
				}
				if ctx.Err() == nil {
					seen++
					bar.show(seen, len(questions))
				}
				out.mu.Unlock()
			}
		})
	}
	for _, q := range questions {
		select {
		case next <- q:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(next)
	workers.Wait()
	if out.Stopped == "" && ctx.Err() != nil {
		out.Stopped = "interrupted"
	}
	if err := context.Cause(ctx); apiclient.IsStatus(err, http.StatusUnauthorized) || apiclient.IsStatus(err, http.StatusForbidden) || apiclient.IsStatus(err, http.StatusNotFound) {
		return out, err
	}
	return out, nil
}

// label labels one question until it is done or the budget is used up.
func (l *labelFlags) label(ctx context.Context, client *apiclient.Client, q schema.LabelledQuestion, texts int, b *budget, out *labelResult) (last schema.Labelled, err error) {
	for {
		calls, dollars := b.reserve(callsAtOnce)
		if calls == 0 && !l.DryRun { // a dry run asks what there is to do
			return last, nil
		}
		last, err = client.Label(ctx, l.Collection, api.LabelledQuestion{Question: q.Question, Answers: q.Answers, Texts: texts, Calls: calls, Cost: dollars})
		unused := calls - last.Calls
		if err != nil {
			unused = 0 // the calls may have been made, so they count
		}
		if calls > 0 {
			b.settle(unused, last.Usage.Cost)
		}
		if err != nil {
			return last, err
		}
		out.mu.Lock()
		out.Calls, out.Usage = out.Calls+last.Calls, out.Usage.Sum(last.Usage)
		out.mu.Unlock()
		if paid := last.Usage; l.Cost > 0 && paid.Cost == 0 && paid.InputTokens+paid.OutputTokens > 0 && !paid.Cached {
			return last, errNoPrice
		}
		if last.Problem != "" {
			return last, &interrupted{last}
		}
		if last.Left == 0 || last.Calls == 0 {
			return last, nil
		}
	}
}

// add adds the latest state of a question.
func (s *labelResult) add(last schema.Labelled) {
	if last.Model == "" {
		s.Unseen++
		return
	}
	s.Model = last.Model
	if last.Left == 0 && last.Problem == "" {
		s.Done++
	}
	if last.Known != nil {
		if s.Asked++; *last.Known {
			s.Known++
		}
	}
	s.Texts, s.HaveAnswer, s.Preferred = s.Texts+last.Texts, s.HaveAnswer+last.HaveAnswer, s.Preferred+last.Preferred
	s.Left, s.LeftTokens = s.Left+last.Left, s.LeftTokens+last.LeftTokens
}

// stops reports whether an error also affects other questions.
func stops(err error) bool {
	var p *api.Problem
	return !errors.As(err, &p) || p.Status != http.StatusBadRequest && p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusConflict ||
		errors.Is(err, errNoPrice)
}

// print prints the result of a run.
func (l *labelFlags) print(s *labelResult) {
	fmt.Printf("model      %s\n", printable(s.Model))
	fmt.Printf("questions  %d, %d of them done; %d of %d answered correctly without retrieval\n", s.Questions, s.Done, s.Known, s.Asked)
	if s.Texts > 0 {
		fmt.Printf("texts      %d labelled: %d have the answer, %d help the model\n", s.Texts, s.HaveAnswer, s.Preferred)
	}
	fmt.Printf("calls      %d made now, %d tokens in, %d out, $%.4f\n", s.Calls, s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.Cost)
	if s.Unseen > 0 {
		fmt.Printf("left       %d questions that were not reached\n", s.Unseen)
	}
	if s.Left > 0 {
		fmt.Printf("left       %d calls at most, about %d tokens to send\n", s.Left, s.LeftTokens)
	}
	for i, f := range s.Failures {
		if i == 5 {
			fmt.Printf("failed     and %d more\n", len(s.Failures)-i)
			break
		}
		fmt.Printf("failed     %s\n", printable(f))
	}
	switch {
	case s.Stopped != "":
		fmt.Printf("stopped    %s; run the same command again to continue\n", printable(s.Stopped))
	case s.Left+s.Unseen > 0 && !l.DryRun:
		fmt.Printf("stopped    %s; run the same command again to continue\n", budgetExhausted)
	}
}

// begin reads the questions and labels them.
func (l *labelFlags) begin(ctx context.Context, file string, texts int, what string) (*apiclient.Client, *labelResult, error) {
	questions, err := readLabelledQuestions(file)
	if err != nil {
		return nil, nil, err
	}
	client, err := l.client()
	if err != nil {
		return nil, nil, err
	}
	done, err := l.run(ctx, client, questions, texts, what)
	return client, done, err
}
