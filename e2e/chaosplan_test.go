//go:build chaos

package e2e

// This file determines a campaign from its seed alone: the requests of writers and readers, and the
// faults, with their times.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Kinds of actions.
const (
	actUpload  = "upload"
	actUpdate  = "update"
	actClose   = "close" // restricts the document with a label
	actDelete  = "delete"
	actSearch  = "search"
	actAsk     = "ask"
	actJob     = "job"
	actRebuild = "rebuild"
	actHook    = "webhook"
)

// Kinds of faults.
const (
	faultKill       = "kill"      // a program is killed and started again
	faultFreeze     = "freeze"    // SIGSTOP, then SIGCONT
	faultSilence    = "silence"   // the connections stay open and carry nothing
	faultRefuse     = "refuse"    // the connections are closed, and new ones as well
	faultDrop       = "drop"      // the connections are closed once
	faultClock      = "clock"     // the wall clock of one program jumps, and later back
	faultClocks     = "clocks"    // the same for all programs
	faultReadOnly   = "read-only" // the database accepts no writes
	faultPostgres   = "postgres"  // Postgres is killed
	faultNATS       = "nats"      // a NATS server is killed
	faultNATSFreeze = "nats freeze"
	faultTemporal   = "temporal" // a Temporal server is killed
	faultDisk       = "disk"     // the database's disk is full
	faultRepeat     = "repeat"   // messages are published again without their ids, in another order
	faultHooks      = "hooks"    // the receiver of webhooks refuses them
)

var (
	programFaults = []string{faultKill, faultKill, faultFreeze, faultSilence, faultRefuse, faultDrop, faultClock, faultClocks}
	serverFaults  = []string{faultReadOnly, faultPostgres, faultNATS, faultNATS, faultNATSFreeze, faultTemporal, faultDisk, faultRepeat, faultRepeat, faultHooks}
)

// chaosAction is one request of a writer. At is the earliest time.
type chaosAction struct {
	At       time.Duration
	Kind     string
	Document string `json:",omitempty"` // its external id
	Token    string `json:",omitempty"` // a word that no other text contains
	Question string `json:",omitempty"`
}

// chaosWriter is one client. No other client writes to its collection. It sends its requests one
// after another.
type chaosWriter struct {
	Tenant     string
	Collection string
	Documents  int // the tenant's limit; 0 means no limit
	Actions    []chaosAction
}

// chaosFault begins at At, or when the previous one has ended, and lasts For.
type chaosFault struct {
	At, For time.Duration
	Kind    string
	Target  string        `json:",omitempty"` // a program or a server
	Parts   []string      `json:",omitempty"` // the servers whose connections are affected: postgres, nats, temporal
	Off     time.Duration `json:",omitempty"` // how far a clock jumps
}

// chaosPlan is a campaign.
type chaosPlan struct {
	Seed     uint64
	Duration time.Duration
	Writers  []chaosWriter
	Faults   [][]chaosFault // the faults of a list happen one after another; the lists run at the same time
}

// Tenants of a campaign.
const (
	quotaTenant  = "quota"  // has a small limit of documents
	budgetTenant = "budget" // has a small token budget
	quota        = 6
)

// programNames returns the programs of a bed, two of each.
func programNames() (out []string) {
	for _, program := range []string{"serve", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter"} {
		out = append(out, program+"-1", program+"-2")
	}
	return out
}

// newChaosPlan returns the campaign of a seed.
func newChaosPlan(seed uint64, duration time.Duration) chaosPlan {
	p := chaosPlan{Seed: seed, Duration: duration}
	for i, tenant := range []string{"alpha", "alpha", "beta", "beta", quotaTenant, budgetTenant} {
		p.Writers = append(p.Writers, newChaosWriter(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprint("crates-", i), tenant, duration))
	}
	for i, kinds := range [][]string{programFaults, serverFaults} {
		p.Faults = append(p.Faults, newChaosFaults(rand.New(rand.NewPCG(seed, uint64(100+i))), kinds, duration))
	}
	return p
}

func newChaosWriter(r *rand.Rand, collection, tenant string, duration time.Duration) chaosWriter {
	w := chaosWriter{Tenant: tenant, Collection: collection}
	weights := map[string]int{actUpload: 26, actUpdate: 26, actClose: 9, actDelete: 9, actSearch: 12, actAsk: 4, actJob: 10, actRebuild: 1, actHook: 1}
	switch tenant {
	case quotaTenant:
		w.Documents = quota
		weights[actUpload], weights[actDelete] = 40, 20
	case budgetTenant:
		weights[actJob], weights[actAsk] = 60, 20
	}
	var kinds []string
	for _, kind := range []string{actUpload, actUpdate, actClose, actDelete, actSearch, actAsk, actJob, actRebuild, actHook} {
		for range weights[kind] {
			kinds = append(kinds, kind)
		}
	}
	live, hooks := []string{}, 0
	tokens := map[string]string{} // of the newest version of each document
	for at, n := time.Duration(0), 0; at < duration; n++ {
		at += 300*time.Millisecond + time.Duration(r.Int64N(int64(1200*time.Millisecond)))
		a := chaosAction{At: at, Kind: kinds[r.IntN(len(kinds))]}
		if len(live) == 0 && a.Kind != actHook && a.Kind != actRebuild {
			a.Kind = actUpload
		}
		if a.Kind == actHook {
			if hooks++; hooks > 3 {
				a.Kind = actSearch
			}
		}
		switch a.Kind {
		case actUpload:
			a.Document, a.Token = fmt.Sprintf("%s-%03d.txt", collection, n), newToken(r)
			if w.Documents == 0 || len(live) < w.Documents {
				live = append(live, a.Document)
				tokens[a.Document] = a.Token
			}
		case actHook, actRebuild:
		default:
			if len(live) == 0 {
				continue
			}
			a.Document = live[r.IntN(len(live))]
			switch a.Kind {
			case actUpdate:
				a.Token = newToken(r)
				tokens[a.Document] = a.Token
			case actDelete:
				live = slices.DeleteFunc(live, func(d string) bool { return d == a.Document })
			default:
				a.Token = tokens[a.Document]
				a.Question = fmt.Sprintf("Question %d of %s: where is the crate %s kept?", n, collection, a.Token)
			}
		}
		w.Actions = append(w.Actions, a)
	}
	return w
}

// newToken returns a word that identifies one version of one document.
func newToken(r *rand.Rand) string {
	const consonants, vowels = "bdfgklmnprtvz", "aou"
	var b strings.Builder
	b.WriteString("qx")
	for range 5 {
		b.WriteByte(consonants[r.IntN(len(consonants))])
		b.WriteByte(vowels[r.IntN(len(vowels))])
	}
	b.WriteByte('k')
	return b.String()
}

func newChaosFaults(r *rand.Rand, kinds []string, duration time.Duration) (out []chaosFault) {
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	names := programNames()
	at := between(2*time.Second, 5*time.Second)
	var round []string
	for {
		if len(round) == 0 { // every kind occurs once before one occurs again
			round = slices.Clone(kinds)
			r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		f := chaosFault{At: at, For: between(2*time.Second, 9*time.Second), Kind: round[0]}
		round = round[1:]
		switch f.Kind {
		case faultKill, faultFreeze:
			f.Target = names[r.IntN(len(names))]
		case faultSilence, faultRefuse, faultDrop:
			f.Target = names[r.IntN(len(names))]
			f.Parts = [][]string{{"postgres"}, {"nats"}, {"temporal"}, {"postgres", "nats", "temporal"}}[r.IntN(4)]
		case faultClock, faultClocks:
			if f.Kind == faultClock {
				f.Target = names[r.IntN(len(names))]
			}
			f.Off = []time.Duration{-3 * time.Hour, -11 * time.Minute, -40 * time.Second, 40 * time.Second, 11 * time.Minute, 3 * time.Hour}[r.IntN(6)]
			f.For *= 2
		case faultNATS, faultNATSFreeze:
			f.Target = fmt.Sprint("nats-", 1+r.IntN(3))
		case faultTemporal:
			f.Target = fmt.Sprint("temporal-", 1+r.IntN(2))
		}
		if at += f.For; at > duration {
			return out
		}
		out = append(out, f)
		at += between(time.Second, 5*time.Second)
	}
}

// TestChaosPlan checks that a seed always gives the same plan, and another seed another plan.
func TestChaosPlan(t *testing.T) {
	text := func(seed uint64) string {
		data, err := json.Marshal(newChaosPlan(seed, 5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if text(1) != text(1) || text(1) == text(2) {
		t.Error("a plan is not a function of its seed")
	}
	p, kinds := newChaosPlan(1, 5*time.Minute), map[string]int{}
	tokens := map[string]bool{}
	for _, w := range p.Writers {
		for _, a := range w.Actions {
			kinds[a.Kind]++
			if a.Kind == actUpload || a.Kind == actUpdate {
				if tokens[a.Token] {
					t.Errorf("the token %s occurs twice", a.Token)
				}
				tokens[a.Token] = true
			}
		}
	}
	for _, faults := range p.Faults {
		for _, f := range faults {
			kinds[f.Kind]++
		}
	}
	for _, kind := range slices.Concat([]string{actUpload, actUpdate, actClose, actDelete, actSearch, actAsk, actJob, actRebuild, actHook}, programFaults, serverFaults) {
		if kinds[kind] == 0 {
			t.Errorf("in 5 minutes of the seed 1 there is no %s: %v", kind, kinds)
		}
	}
}
