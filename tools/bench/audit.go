package main

// This file measures what the audit of reads costs: the processor time per search of a whole
// Sluice, with and without it.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema/api"
)

// batched is longer than the delay with which reads are written.
const batched = 2 * time.Second

type auditCommand struct {
	Seed      uint64        `default:"1" help:"What documents and questions are made from."`
	Rounds    int           `default:"6" help:"How often each side is measured, in turns."`
	Searches  int           `default:"1500" help:"Searches of a round."`
	Callers   int           `default:"8" help:"Callers at a time."`
	Documents int           `default:"200" help:"Documents of the collection."`
	Program   string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON      string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout   time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

func (c *auditCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *auditCommand) findings(ctx context.Context) (*findings, error) {
	if c.Rounds < 1 || c.Searches < 1 || c.Callers < 1 || c.Documents < 1 {
		return nil, errors.New("rounds, searches, callers and documents must be above 0")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	f := &findings{Part: "audit", Corpus: fmt.Sprintf("%d documents made from seed %d", c.Documents, c.Seed)}
	if err := c.measure(ctx, program, f); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return f, nil
}

// audited is a Sluice that records reads, or one that does not.
type audited struct {
	*installation
	search side
}

func (c *auditCommand) measure(ctx context.Context, program string, f *findings) (err error) {
	settings := []string{"off", "on"}
	of := make([]audited, len(settings))
	for i, setting := range settings {
		progressf("audit: starting with reads %s", setting)
		b, err := newInstallation(ctx, program, "--audit-reads", setting)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		if of[i], err = c.filled(ctx, b, setting); err != nil {
			return err
		}
	}
	progressf("audit: measuring")
	sides := make([]side, len(of))
	for i, a := range of {
		sides[i] = side{a.search.name, func(ctx context.Context, round int) (float64, time.Duration, error) {
			return a.measure(ctx, round)
		}}
	}
	spent, err := rounds(ctx, c.Rounds, sides...)
	if err != nil {
		return err
	}
	for i, s := range sides {
		f.note(s.name, "%.2f ms of processor time a search", median(spent[i]))
	}
	f.compare(ratio{What: "processor time of a search, reads recorded", Unit: "ms", Ours: spent[1], Other: spent[0], Against: "not recorded", Target: 1.02, AtMost: true})
	return nil
}

// filled creates a tenant with documents, and returns it with its searches.
func (c *auditCommand) filled(ctx context.Context, b *installation, setting string) (audited, error) {
	operator, err := b.client()
	if err != nil {
		return audited{}, err
	}
	t, err := (&neighbourCommand{Seed: c.Seed}).newTenant(ctx, b, operator, "audited", 0)
	if err != nil {
		return audited{}, err
	}
	transport := keepAlive(c.Callers)
	t.client = apiclient.Over(&http.Client{Transport: transport}, b.access.URL, t.key)
	for left := c.Documents; left > 0; left -= ownDocuments {
		if err := t.upload(ctx, min(left, ownDocuments)); err != nil {
			return audited{}, err
		}
	}
	if _, err := finished(ctx, t.client, collected); err != nil {
		return audited{}, err
	}
	questions := make([]string, c.Searches)
	for i := range questions {
		questions[i] = t.question()
	}
	a := audited{b, queryRounds("reads "+setting, questions, c.Callers, c.Timeout, func(ctx context.Context, q string) error {
		_, err := t.client.Search(ctx, api.Query{Collection: collected, Query: q, Plan: "bm25"})
		return err
	})}
	_, _, err = a.search.measure(ctx, 0) // warm up the caches; not counted
	return a, err
}

// measure returns the milliseconds of processor time per search, including the batch that is
// written after the last one.
func (a audited) measure(ctx context.Context, round int) (float64, time.Duration, error) {
	before, err := account(a.sluice.cmd.Process.Pid, a.nats.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	searches, _, err := a.search.measure(ctx, round)
	if err != nil {
		return 0, 0, err
	}
	if err := rest(ctx, batched); err != nil {
		return 0, 0, err
	}
	after, err := account(a.sluice.cmd.Process.Pid, a.nats.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	used, err := after.since(before)
	if err != nil {
		return 0, 0, err
	}
	total := 0.0
	for _, seconds := range used {
		total += seconds
	}
	return total * 1000 / searches, time.Second, nil
}
