// Package stage implements the stages of plans, each in its own file, and the state of one run of a
// plan (Task). Candidates are refs and scores without text (item.go). Texts are loaded by stages
// that read them and, at the end, for what is returned; what is not live and visible then is left
// out.
package stage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Kind declares a stage in the stage's file. Validation, the engine and the documentation read from
// it what a plan may write, where the stage may stand and what it does. To add a stage, add a file
// with its Kind and a line in kinds.
type Kind struct {
	Name string
	// Parameters and Does are its line in the documentation. Each parameter is in backquotes, with
	// its default.
	Parameters, Does string

	Selects        bool // it changes the context and not the ranking
	AfterSelection bool // it may follow a stage that selects without selecting itself
	Finds          bool // it looks units up by their refs
	Joins          bool // its candidates are two passages each
	Skips          bool // it may have the question answered from what the language model knows

	read func(*Parameters) Stage
}

// kinds are the stages that exist, in the order of the documentation.
var kinds = []*Kind{
	&lexicalKind, &denseKind, &hybridKind, &proximityKind, &scoreKind, &newestKind, &spellKind, &rewriteKind, &judgeKind, &fuseKind,
	&relateKind, &zoomKind, &dedupeKind, &gradientKind, &thresholdKind, &reduceKind, &skipRetrievalKind, &orderKind, &limitKind,
}

// Find returns the kind with a name; nil if there is none.
func Find(name string) *Kind {
	if i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name }); i >= 0 {
		return kinds[i]
	}
	return nil
}

// Names lists the names of all stages.
func Names() string { return kindNames(func(*Kind) bool { return true }) }

// Make makes a stage from its parameters, which record its errors.
func (k *Kind) Make(p *Parameters) Stage {
	s := k.read(p)
	s.Kind = k
	return s
}

// Stage is a step of a plan, from candidates to candidates. Its Kind makes it from its parameters.
type Stage struct {
	Kind *Kind
	// Fit returns the unit of the output when the input is of unit in ("" for the first stage), or
	// a FieldError on the parameter that is wrong.
	Fit    func(in schema.Unit) (schema.Unit, error)
	Scores []string // names of the scores that it adds to candidates
	Reads  string   // name of the score that it selects by; "": none, or that of the previous stage
	Cost   Cost     // the most that it may cost
	Takes  int      // how many of its input candidates it uses, the first ones; 0: all
	run    func(ctx context.Context, t *Task, in Candidates) (outcome, error)

	// withMinK returns the stage with another MinK; nil if the stage has none.
	withMinK func(minK int) Stage
	MinK     int
}

// WithMinK returns the stage with another MinK.
func (s Stage) WithMinK(minK int) Stage {
	of := s.withMinK(minK)
	of.Kind = s.Kind
	return of
}

// MayFollowSelection reports whether the stage may come after a selecting stage.
func (k *Kind) MayFollowSelection() bool { return k.Selects || k.AfterSelection }

// FollowSelection lists the stages that may follow a selecting stage.
func FollowSelection() string {
	list := kindNames((*Kind).MayFollowSelection)
	i := strings.LastIndex(list, ", ")
	return list[:i] + " and" + list[i+1:]
}

// kindNames lists the stages for which so is true.
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

// Run runs the stage, the i-th of its plan, on the output of the previous stage.
func (s Stage) Run(ctx context.Context, t *Task, i int, in Candidates) (Step, error) {
	t.stage = i
	start := time.Now()
	out, err := s.run(ctx, t, in)
	return Step{outcome: out, name: s.Kind.Name, in: len(in.items), Took: time.Since(start)}, err
}

// Candidates are the input or output of a stage: of one unit, best first.
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
	statistics map[string]float64 // shown to admins only
}

// note adds a component's note to the report.
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

// First returns the best k.
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

// Found returns the candidates that the stage returned.
func (s Step) Found() Candidates { return Candidates{unit: s.unit, items: s.items} }

// Cost is the most that a stage may cost.
type Cost struct{ Calls, Reads, Searches int }
