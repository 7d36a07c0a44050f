package stage

// The selecting stages: they choose and order the context from which the answer is made, and leave
// the ranking unchanged. gradient and dedupe have files of their own.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// fitSelection accepts candidates of any unit and returns the same unit.
func fitSelection(in schema.Unit) (schema.Unit, error) {
	if in == "" {
		return "", schema.Invalid("", "cannot be first: a plan begins with lexical, dense or hybrid")
	}
	return in, nil
}

type limit struct{ k, tokens int }

var limitKind = Kind{
	Name:       "limit",
	Parameters: "`k` (10), `tokens` (0: any)",
	Does:       "selects: the first `k`, of so many tokens together",
	Selects:    true,
	read:       readLimit,
}

// readLimit reads the stage "limit":
//
//	limit: {k: 10, tokens: 4000}
//
// Keeps the first k candidates, and of these only as many as have at most tokens tokens together
// (0: no limit). The first one always stays.
func readLimit(p *Parameters) Stage {
	s := limit{k: p.Int("k", 10, 1, MaxK), tokens: p.Int("tokens", 0, 0, 1_000_000)}
	return Stage{Fit: fitSelection, Takes: s.k, run: s.run}
}

func (l limit) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	kept, rest := cut(in.items, l.k)
	out := outcome{unit: in.unit, dropped: drop(rest, fmt.Sprintf("below rank %d", l.k)), why: fmt.Sprintf("at most %d", l.k)}
	if l.tokens > 0 {
		shown, err := t.views(ctx, kept, in.unit)
		if err != nil {
			return outcome{}, err
		}
		tokens, n := 0, 0
		for i, v := range shown {
			size := v.tokens()
			if i > 0 && tokens+size > l.tokens {
				break
			}
			tokens, n = tokens+size, n+1
		}
		out.dropped = append(drop(kept[n:], fmt.Sprintf("over %d tokens", l.tokens)), out.dropped...)
		kept = kept[:n:n]
		out.why = join(out.why, fmt.Sprintf("%d of at most %d tokens", tokens, l.tokens))
	}
	out.items = kept
	return out, nil
}

type order struct{ method string }

var orderKind = Kind{
	Name:       "order",
	Parameters: "`method` (rank, or ends)",
	Does:       "selects: the best first, or at both ends (ChunkRAG)",
	Selects:    true,
	read:       readOrder,
}

// readOrder reads the stage "order":
//
//	order: {method: ends}
//
// rank puts the best first. ends puts the best at both ends of the context and the worst in its
// middle, which language models tend to overlook (ChunkRAG's remedy for "lost in the middle"):
// ranks 1, 3, 5, ..., 6, 4, 2.
func readOrder(p *Parameters) Stage {
	s := order{method: p.Choice("method", "rank", "ends")}
	return Stage{Fit: fitSelection, run: s.run}
}

func (o order) run(_ context.Context, _ *Task, in Candidates) (outcome, error) {
	items := make([]item, len(in.items))
	if o.method == "rank" {
		copy(items, in.items)
		rank(items)
		return outcome{unit: in.unit, items: items, why: "the best first"}, nil
	}
	for i, c := range in.items {
		if i%2 == 0 {
			items[i/2] = c
		} else {
			items[len(items)-1-i/2] = c
		}
	}
	return outcome{unit: in.unit, items: items, why: "the best at both ends"}, nil
}
