//go:build chaos

package e2e

// This file causes the faults of a campaign.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema/wire"
)

// chaosFaults causes faults, and records when each happened.
type chaosFaults struct {
	*chaosBed
	r *rand.Rand

	mu      sync.Mutex
	past    []pastFault
	said    []nats.Msg // messages of the streams, oldest first
	counted map[string]int
}

// pastFault is a fault with the times at which it began and ended.
type pastFault struct {
	chaosFault
	begin, end time.Time
}

// remembered is the number of recent messages from which repeat chooses.
const remembered = 200

func startFaults(t *testing.T, b *chaosBed, seed uint64) *chaosFaults {
	t.Helper()
	f := &chaosFaults{chaosBed: b, r: rand.New(rand.NewPCG(seed, 200)), counted: map[string]int{}}
	for _, subject := range []string{wire.IngestSubjects, wire.QuestionsSubjects, wire.EventsSubjects} {
		sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.said = append(f.said, nats.Msg{Subject: m.Subject, Data: slices.Clone(m.Data), Header: m.Header})
			f.said = f.said[max(0, len(f.said)-remembered):]
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	return f
}

// happen causes faults one after another.
func (f *chaosFaults) happen(t *testing.T, begun time.Time, faults []chaosFault) {
	for _, fault := range faults {
		f.pause(time.Until(begun.Add(fault.At)))
		if f.ctx.Err() != nil {
			return
		}
		f.say("%s %s %v %s for %s", fault.Kind, fault.Target, fault.Parts, fault.Off, fault.For)
		past := pastFault{chaosFault: fault, begin: time.Now()}
		f.mu.Lock()
		f.counted[fault.Kind]++
		f.mu.Unlock()
		back := f.take(t, fault)
		f.pause(fault.For)
		back()
		past.end = time.Now()
		f.say("%s %s is over", fault.Kind, fault.Target)
		f.mu.Lock()
		f.past = append(f.past, past)
		f.mu.Unlock()
	}
}

// take begins a fault. The returned function ends it.
func (f *chaosFaults) take(t *testing.T, fault chaosFault) (back func()) {
	switch n := f.nodes[fault.Target]; fault.Kind {
	case faultKill, faultNATS, faultTemporal:
		release := n.hold()
		n.current().kill()
		return release
	case faultFreeze, faultNATSFreeze:
		p := n.signal(syscall.SIGSTOP)
		return func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
	case faultSilence, faultRefuse, faultDrop:
		var links []*link
		for _, part := range fault.Parts {
			links = append(links, n.links[part]...)
		}
		for _, l := range links {
			switch fault.Kind {
			case faultSilence:
				l.silence(true)
			case faultRefuse:
				l.refuse(true)
			default:
				l.drop()
			}
		}
		return func() {
			for _, l := range links {
				l.silence(false)
				l.refuse(false)
			}
		}
	case faultClock:
		n.clock.set(fault.Off)
		return func() { n.clock.set(0) }
	case faultClocks:
		for _, name := range programNames() {
			f.nodes[name].clock.set(fault.Off)
		}
		return func() {
			for _, name := range programNames() {
				f.nodes[name].clock.set(0)
			}
		}
	case faultReadOnly:
		f.administer(`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
		return func() { f.administer(`ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`) }
	case faultPostgres:
		f.postgres.Kill()
		return func() { f.revive(t) }
	case faultDisk:
		if f.disk == "" {
			f.say("only root may mount a disk to fill")
			return func() {}
		}
		filler := filepath.Join(f.disk, "filler")
		localtest.Fill(t, filler)
		return func() {
			if err := os.Remove(filler); err != nil {
				t.Error(err)
			}
			f.revive(t)
		}
	case faultRepeat:
		f.repeat()
		return f.repeat
	case faultHooks:
		f.hooks.refuse(true)
		return func() { f.hooks.refuse(false) }
	}
	panic("a fault of the kind " + fault.Kind)
}

// administer runs statements as the superuser. It tries again until they succeed, because another
// fault may have stopped the database.
func (f *chaosFaults) administer(statements ...string) {
	for f.ctx.Err() == nil {
		err := func() error {
			db, err := pgx.Connect(f.ctx, f.postgres.AdminURL(local.Database))
			if err != nil {
				return err
			}
			defer func() { _ = db.Close(f.ctx) }()
			for _, s := range statements {
				if _, err := db.Exec(f.ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			return nil
		}()
		if err == nil {
			return
		}
		f.say("%v", err)
		f.pause(200 * time.Millisecond)
	}
}

// revive starts Postgres again if it has ended.
func (f *chaosFaults) revive(t *testing.T) {
	select {
	case <-f.postgres.Done():
	default:
		// After a kill, Postgres ends a moment later. After its disk was full, it may not end at
		// all.
		f.pause(500 * time.Millisecond)
		select {
		case <-f.postgres.Done():
		default:
			return
		}
	}
	if err := f.postgres.Start(t.Context()); err != nil && f.ctx.Err() == nil {
		t.Errorf("Postgres does not start again: %v", err)
	}
}

// repeat publishes recent messages again, in another order and without the headers by which NATS
// recognises duplicates.
func (f *chaosFaults) repeat() {
	f.mu.Lock()
	again := slices.Clone(f.said)
	f.r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	f.mu.Unlock()
	for _, m := range again[:min(len(again), 60)] {
		header := nats.Header{}
		for name, values := range m.Header {
			if !strings.HasPrefix(name, "Nats-") {
				header[name] = values
			}
		}
		_ = f.nc.PublishMsg(&nats.Msg{Subject: m.Subject, Data: m.Data, Header: header})
	}
}

// lostReplies reports whether a fault of a gateway or of the database overlapped with an interval.
func (f *chaosFaults) lostReplies(begin, end time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.past {
		hits := strings.HasPrefix(p.Target, "llm-gateway") || slices.Contains([]string{faultReadOnly, faultPostgres, faultDisk}, p.Kind)
		if hits && begin.Before(p.end) && end.After(p.begin.Add(-time.Second)) {
			return true
		}
	}
	return false
}

// healthy ends what a fault may have left: it starts Postgres if it has ended, and accepts webhooks
// again.
func (f *chaosFaults) healthy(t *testing.T) {
	f.revive(t)
	f.hooks.refuse(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.say("faults: %v", f.counted)
}
