package main

// This file measures what a whole running Sluice costs while nobody uses it: an empty one, and one
// with many documents in many collections of many tenants and no work left. Both run at once, and
// are measured in the same windows.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

type idleCommand struct {
	Seed        uint64        `default:"1" help:"What texts and vectors are made from: the same seed makes the same."`
	Documents   int           `default:"1000000" help:"Documents, of one short passage each, that the one side has; the other is empty."`
	Collections int           `default:"500" help:"Collections that they are divided among."`
	Tenants     int           `default:"200" help:"Tenants that these collections are divided among."`
	Window      time.Duration `default:"60s" help:"How long both are watched in a round. Loops go round every 30 seconds at most."`
	Rounds      int           `default:"3" help:"How many such windows there are."`
	Rest        time.Duration `default:"90s" help:"How long both are left alone before: PostgreSQL vacuums what was loaded."`
	Statements  int           `default:"0" help:"Also list so many statements of each side that took most of PostgreSQL's time."`
	Program     string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	JSON        string        `placeholder:"FILE" help:"Write the findings there too, as JSON."`
	Timeout     time.Duration `default:"60m" help:"Longest time of the whole measurement."`
}

// idleTarget is how many times the cost of an empty server one with documents may cost.
const idleTarget = 1.5

func (c *idleCommand) Run(ctx context.Context) error {
	f, err := c.findings(ctx)
	if err != nil {
		return err
	}
	return report(c.JSON, f)
}

func (c *idleCommand) check() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("rounds: %d: it must be at least 1", c.Rounds)
	case c.Tenants < 1 || c.Collections < c.Tenants || c.Documents < c.Collections:
		return errors.New("tenants must be above 0, collections no fewer than tenants and documents no fewer than collections")
	case c.Window < time.Second:
		return fmt.Errorf("window: %s: it must be at least 1s", c.Window)
	case c.Rest < 0 || c.Statements < 0:
		return errors.New("rest and statements must not be negative")
	}
	return nil
}

func (c *idleCommand) findings(ctx context.Context) (_ *findings, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return nil, err
	}
	f := &findings{Part: "idle", Corpus: fmt.Sprintf("%d documents of one short passage, in %d collections of %d tenants, made from seed %d",
		c.Documents, c.Collections, c.Tenants, c.Seed)}
	sides := []idleSide{{name: "empty"}, {name: "with documents", documents: true}}
	defer func() {
		for _, s := range sides {
			if s.installation != nil {
				err = errors.Join(err, s.installation.close())
			}
		}
	}()
	for i := range sides {
		if sides[i].installation, err = c.start(ctx, program, sides[i], f); err != nil {
			return nil, fmt.Errorf("idle: %s: %w", sides[i].name, err)
		}
	}
	if err := c.measure(ctx, sides, f); err != nil {
		return nil, fmt.Errorf("idle: %w", err)
	}
	return f, nil
}

// idleSide is one of the two servers.
type idleSide struct {
	name         string
	documents    bool
	installation *installation
	spent        []idleSpending // by round
}

// start creates a database, fills it if it is to have documents, starts a Sluice on it and waits
// until no work is left.
func (c *idleCommand) start(ctx context.Context, program string, s idleSide, f *findings) (_ *installation, err error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	progressf("idle: %s: starting", s.name)
	b, err := newWorkbenchIn(ctx, filepath.Join(dir, "data"), false)
	if err != nil {
		return nil, errors.Join(err, removeDir(dir))
	}
	// Statements are counted from the next start of PostgreSQL.
	err = b.execute(ctx, `DROP SCHEMA others`, `CREATE EXTENSION pg_stat_statements`,
		`ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	if err == nil && s.documents {
		var took time.Duration
		if took, err = timed(func() error { return c.load(ctx, b) }); err == nil {
			f.note("loading", "%.0f s: %.0f documents/s, with clusters and merged segments", took.Seconds(), float64(c.Documents)/took.Seconds())
		}
	}
	if err := errors.Join(err, b.stop()); err != nil {
		return nil, errors.Join(err, removeDir(dir))
	}
	installation, err := newInstallationIn(ctx, dir, program)
	if err != nil {
		return nil, err
	}
	progressf("idle: %s: waiting until nothing is left to do", s.name)
	if err := installation.untilDone(ctx); err != nil {
		return nil, errors.Join(err, installation.close())
	}
	return installation, nil
}

func (c *idleCommand) measure(ctx context.Context, sides []idleSide, f *findings) error {
	watches := make([]*idleWatch, len(sides))
	for i, s := range sides {
		w, err := newIdleWatch(ctx, s.installation)
		if err != nil {
			return err
		}
		defer w.close()
		watches[i] = w
	}
	progressf("idle: resting for %s", c.Rest)
	if err := rest(ctx, c.Rest); err != nil {
		return err
	}
	others := 0.0
	for round := range c.Rounds {
		progressf("idle: measuring, round %d", round+1)
		spent, busy, err := c.window(ctx, watches)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		for i, s := range spent {
			sides[i].spent = append(sides[i].spent, s)
			busy -= s.seconds()
			progressf("idle: %s: %.2f CPU s %v, %.0f statements, %.0f transactions, %.0f bytes of the log, all a minute",
				sides[i].name, s.seconds(), s.cpu, s.statements, s.transactions, s.log)
		}
		others += busy / float64(c.Rounds)
	}
	f.note("load", "everything else on this machine took %.1f CPU s/min meanwhile", max(0, others))
	for _, s := range sides {
		f.idleSide(s, c.Statements)
	}
	f.idleRatios(sides[1].spent, sides[0].spent)
	return nil
}

// window watches all servers for one round, and returns what each spent per minute, and what the
// whole machine spent.
func (c *idleCommand) window(ctx context.Context, watches []*idleWatch) (spent []idleSpending, busy float64, err error) {
	before, after := make([]idleReading, len(watches)), make([]idleReading, len(watches))
	readAll := func(out []idleReading) (float64, error) {
		var group errgroup.Group
		for i, w := range watches {
			group.Go(func() (err error) {
				out[i], err = w.readCounters(ctx)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		return systemBusy()
	}
	busyBefore, err := readAll(before)
	if err != nil {
		return nil, 0, err
	}
	if err := rest(ctx, c.Window); err != nil {
		return nil, 0, err
	}
	busyAfter, err := readAll(after)
	if err != nil {
		return nil, 0, err
	}
	for i := range watches {
		s, err := after[i].since(before[i])
		if err != nil {
			return nil, 0, err
		}
		spent = append(spent, s)
	}
	minutes := after[0].at.Sub(before[0].at).Minutes()
	return spent, (busyAfter - busyBefore) / minutes, nil
}

// idleSide notes the cost of one side by kind of process, and the statements that took most of
// PostgreSQL's time.
func (f *findings) idleSide(s idleSide, statements int) {
	of := func(p part) float64 {
		return median(idleEach(s.spent, func(s idleSpending) float64 { return s.cpu[p] }))
	}
	f.note(s.name, "CPU s/min: sluice %.2f, PostgreSQL %.2f, Temporal %.2f, models %.2f, NATS %.2f",
		of(partSluice)+of(partParse), of(partSQL), of(partTemporal), of(partModel), of(partNATS))
	for _, st := range costliest(s.spent, statements) {
		f.note("  "+s.name, "%.1f calls, %.1f ms, %.1f KB of the log a minute: %s", st.calls, st.millis, st.log/1e3, shortened(st.text))
	}
}

// idleRatios compares the sides round by round.
func (f *findings) idleRatios(full, empty []idleSpending) {
	for _, r := range []struct {
		what, unit string
		value      func(idleSpending) float64
	}{
		{"processor time, with documents", "CPU s/min", idleSpending.seconds},
		{"statements", "1/min", func(s idleSpending) float64 { return s.statements }},
		{"transactions", "1/min", func(s idleSpending) float64 { return s.transactions }},
		{"write-ahead log", "bytes/min", func(s idleSpending) float64 { return s.log }},
	} {
		f.compare(ratio{What: r.what, Unit: r.unit, Ours: idleEach(full, r.value), Other: idleEach(empty, r.value),
			Against: "empty", Target: idleTarget, AtMost: true})
	}
}

func idleEach(spent []idleSpending, value func(idleSpending) float64) (out []float64) {
	for _, s := range spent {
		out = append(out, value(s))
	}
	return out
}
