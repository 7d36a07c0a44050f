// Package stage holds the stages of plans, each in a file of its own, and what
// one run of a plan knows (Task). Candidates are light (item.go): places and
// scores. Texts are loaded where a stage reads them and at the end, for what is
// returned, and checked then against what is live and visible.
package stage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Kind declares a stage, in the stage's file: validation, the engine and the documentation read
// what plans may write, how it may stand among others and what it does from here. A new one is a
// file with its Kind, and a line in kinds.
type Kind struct {
	Name string
	// Parameters and Does are its line in the documentation. Each parameter stands in backquotes,
	// with its default.
	Parameters, Does string

	Selects        bool // it changes the context and not the ranking
	AfterSelection bool // it may follow a stage that selects without selecting itself
	Finds          bool // it looks units up by their place
	Joins          bool // its candidates are two passages each
	Skips          bool // it may have the question answered from what the language model knows

	read func(*Parameters) Stage
}

// kinds are the stages that exist, in the order of the documentation.
var kinds = []*Kind{
	&lexicalKind, &denseKind, &hybridKind, &proximityKind, &scoreKind, &newestKind, &spellKind, &rewriteKind, &judgeKind, &fuseKind,
	&relateKind, &zoomKind, &dedupeKind, &gradientKind, &thresholdKind, &reduceKind, &skipRetrievalKind, &orderKind, &limitKind,
}

// Find returns the kind of a name, nil for none.
func Find(name string) *Kind {
	if i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name }); i >= 0 {
		return kinds[i]
	}
	return nil
}

// Names lists all stages.
func Names() string { return kindNames(func(*Kind) bool { return true }) }

// Make makes a stage of its parameters, whose errors they keep.
func (k *Kind) Make(p *Parameters) Stage {
	s := k.read(p)
	s.Kind = k
	return s
}

// Stage is a step of a plan, from candidates to candidates, as its kind makes it of its parameters.
type Stage struct {
	Kind *Kind
	// Fit says which units come out when units of in go in ("" for the first
	// stage), or what is wrong, as a FieldError on the parameter.
	Fit    func(in schema.Unit) (schema.Unit, error)
	Scores []string // the names of those that it gives its candidates
	Reads  string   // the name of those that it chooses by; "": none, or the stage's before
	Cost   Cost     // at most
	Takes  int      // it looks at so many of what comes to it, the first ones; 0: at all
	run    func(ctx context.Context, t *Task, in Candidates) (outcome, error)

	// withMinK is the stage with another least number of candidates than minK; nil for one that has
	// none.
	withMinK func(minK int) Stage
	MinK     int
}

// WithMinK is the stage with another least number of candidates.
func (s Stage) WithMinK(minK int) Stage {
	of := s.withMinK(minK)
	of.Kind = s.Kind
	return of
}

// MayFollowSelection reports whether the stage may come behind one that selects.
func (k *Kind) MayFollowSelection() bool { return k.Selects || k.AfterSelection }

// FollowSelection lists the stages that may follow one that selects.
func FollowSelection() string {
	list := kindNames((*Kind).MayFollowSelection)
	i := strings.LastIndex(list, ", ")
	return list[:i] + " and" + list[i+1:]
}

// kindNames lists the stages that are so.
func kindNames(so func(*Kind) bool) string {
	var names []string
	for _, k := range kinds {
		if so(k) {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Run runs the stage, the i-th of its plan, on what the one before gave.
func (s Stage) Run(ctx context.Context, t *Task, i int, in Candidates) (Step, error) {
	t.stage = i
	start := time.Now()
	out, err := s.run(ctx, t, in)
	return Step{outcome: out, name: s.Kind.Name, in: len(in.items), Took: time.Since(start)}, err
}

// Candidates are what one stage gives to the next: of one unit, best first.
type Candidates struct {
	unit  schema.Unit // empty before the first stage
	items []item
}

// outcome is what a stage did.
type outcome struct {
	unit       schema.Unit
	items      []item
	dropped    []judged
	why        string
	statistics map[string]float64 // for admins
}

// note takes over what a component says beside its hits.
func (o *outcome) note(f found) {
	if f.note != "" && !strings.Contains(o.why, f.note) {
		o.why = join(o.why, f.note)
	}
	for k, v := range f.statistics {
		if o.statistics == nil {
			o.statistics = map[string]float64{}
		}
		if _, ok := o.statistics[k]; !ok {
			o.statistics[k] = v
		}
	}
}

// Len counts the candidates.
func (c Candidates) Len() int { return len(c.items) }

// First are the best k.
func (c Candidates) First(k int) Candidates {
	c.items, _ = cut(c.items, k)
	return c
}

// Step is a stage's work, before it becomes a report.
type Step struct {
	outcome
	name string
	in   int
	Took time.Duration
}

// Found are the candidates that the stage gave.
func (s Step) Found() Candidates { return Candidates{unit: s.unit, items: s.items} }

// Cost is what a stage may cost at most.
type Cost struct{ Calls, Reads, Searches int }
