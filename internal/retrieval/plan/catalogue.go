package plan

// This file loads the plans that queries can ask for by name.

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Catalogue is a set of plans by name.
type Catalogue struct {
	plans       map[string]Plan
	defaultPlan string
}

// LoadCatalogue reads every .yaml file of a folder. The name of a file is the name of its plan.
// Queries that name no plan use the plan called defaultPlan.
func LoadCatalogue(folder fs.FS, defaultPlan string) (*Catalogue, error) {
	c := &Catalogue{plans: map[string]Plan{}, defaultPlan: defaultPlan}
	if err := c.Add(folder); err != nil {
		return nil, err
	}
	if _, ok := c.plans[defaultPlan]; !ok {
		return nil, fmt.Errorf("load plans: %w", schema.Invalid("plan", "the default plan %q is not among: %s", defaultPlan, names(c.plans)))
	}
	return c, nil
}

// Add reads every .yaml file of another folder. It returns an error if a plan of that name exists
// already.
func (c *Catalogue) Add(folder fs.FS) error {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return fmt.Errorf("list plans: %w", err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return fmt.Errorf("read plan %s: %w", file, err)
		}
		p, err := Parse(text)
		if err != nil {
			return fmt.Errorf("plan %s: %w", file, err)
		}
		if want := strings.TrimSuffix(path.Base(file), ".yaml"); p.Name != want {
			return fmt.Errorf("plan %s: %w", file, schema.Invalid("name", "is %q; the file's name says %q", p.Name, want))
		}
		if _, taken := c.plans[p.Name]; taken {
			return fmt.Errorf("plan %s: %w", file, schema.Invalid("name", "there is a plan %q already", p.Name))
		}
		c.plans[p.Name] = p
	}
	return nil
}

// Plan returns the plan with a name, or the default plan for "". For an unknown name it returns a
// FieldError on "plan" that lists the existing names.
func (c *Catalogue) Plan(name string) (Plan, error) {
	if name == "" {
		name = c.defaultPlan
	}
	p, ok := c.plans[name]
	if !ok {
		return Plan{}, schema.Invalid("plan", "there is no plan %q; those of the server are: %s; 'sluice plans list' shows a tenant's own, too", name, names(c.plans))
	}
	return p, nil
}

// Describe describes all plans, sorted by name.
func (c *Catalogue) Describe() []schema.Plan {
	out := []schema.Plan{}
	for _, name := range c.Names() {
		p := c.plans[name].Describe()
		p.Default = name == c.defaultPlan
		out = append(out, p)
	}
	return out
}

// Names returns the names of all plans, sorted.
func (c *Catalogue) Names() []string { return slices.Sorted(maps.Keys(c.plans)) }

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
