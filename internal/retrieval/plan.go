package retrieval

// This file reads plans. A plan is data: an ordered list of stages with typed,
// validated parameters. What is wrong with one is told by the field's name.

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// Plan is an ordered list of stages.
type Plan struct {
	Name        string
	Description string
	stages      []stage
}

// Stages returns the names of the plan's stages in order.
func (p Plan) Stages() []string {
	out := make([]string, len(p.stages))
	for i, s := range p.stages {
		out[i] = s.name()
	}
	return out
}

// kinds are the stages that exist, each with how its parameters are read.
var kinds = map[string]func(*parameters) stage{
	"dense": readDense,
}

const maxStages = 32

// ParsePlan reads a plan:
//
//	name: naive
//	description: what it is for
//	stages:
//	  - dense: {k: 10}
//
// Every error is a schema.FieldError that names the field ("stages[0].dense.k").
func ParsePlan(text []byte) (Plan, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Plan{}, schema.Invalid("plan", "is not YAML: %v", err)
	}
	if len(root.Content) == 0 {
		return Plan{}, schema.Invalid("plan", "is empty")
	}
	top, err := readParameters("", root.Content[0])
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Name: top.text("name", true), Description: top.text("description", false)}
	stages := top.take("stages")
	if err := top.close(); err != nil {
		return Plan{}, err
	}
	switch {
	case stages == nil || stages.Kind != yaml.SequenceNode || len(stages.Content) == 0:
		return Plan{}, schema.Invalid("stages", "needs a list of at least one stage")
	case len(stages.Content) > maxStages:
		return Plan{}, schema.Invalid("stages", "at most %d stages", maxStages)
	}
	for i, node := range stages.Content {
		s, err := readStage(fmt.Sprintf("stages[%d]", i), node)
		if err != nil {
			return Plan{}, err
		}
		p.stages = append(p.stages, s)
	}
	return p, nil
}

func readStage(field string, node *yaml.Node) (stage, error) {
	if node.Kind == yaml.ScalarNode { // "- dense": all parameters at their defaults
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{node, {Kind: yaml.MappingNode}}}
	}
	if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
		return nil, schema.Invalid(field, "write one stage per item, for example \"- dense: {k: 10}\"")
	}
	kind := node.Content[0].Value
	read, ok := kinds[kind]
	if !ok {
		return nil, schema.Invalid(field, "there is no stage %q; stages are: %s", kind, names(kinds))
	}
	params, err := readParameters(field+"."+kind, node.Content[1])
	if err != nil {
		return nil, err
	}
	s := read(params)
	return s, params.close()
}

// parameters is a YAML mapping that is read field by field; the first thing
// wrong is kept, and what nobody asked for is wrong too.
type parameters struct {
	field  string
	values map[string]*yaml.Node
	err    error
}

func readParameters(field string, node *yaml.Node) (*parameters, error) {
	p := &parameters{field: field, values: map[string]*yaml.Node{}}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return p, nil
	}
	if node.Kind != yaml.MappingNode {
		return nil, schema.Invalid(cmp.Or(field, "plan"), "needs fields with values, found %q", node.Value)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		if _, twice := p.values[key]; twice {
			return nil, schema.Invalid(p.at(key), "is given twice")
		}
		p.values[key] = node.Content[i+1]
	}
	return p, nil
}

func (p *parameters) at(name string) string {
	if name == "" {
		name = `""`
	}
	if p.field == "" {
		return name
	}
	return p.field + "." + name
}

func (p *parameters) take(name string) *yaml.Node {
	node := p.values[name]
	delete(p.values, name)
	return node
}

func (p *parameters) fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = schema.Invalid(p.at(name), format, args...)
	}
}

func (p *parameters) text(name string, required bool) string {
	node := p.take(name)
	switch {
	case node == nil && required:
		p.fail(name, "is missing")
	case node == nil:
	case node.Kind != yaml.ScalarNode || strings.TrimSpace(node.Value) == "":
		p.fail(name, "needs a text")
	default:
		return node.Value
	}
	return ""
}

func (p *parameters) whole(name string, otherwise, least, most int) int {
	node := p.take(name)
	if node == nil {
		return otherwise
	}
	n, err := strconv.Atoi(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || n < least || n > most {
		p.fail(name, "needs a whole number from %d to %d, found %q", least, most, node.Value)
		return otherwise
	}
	return n
}

func (p *parameters) close() error {
	if p.err == nil && len(p.values) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(p.values)))
		p.fail(name, "there is no such field")
	}
	return p.err
}

// Catalogue is a set of plans by name.
type Catalogue struct {
	plans     map[string]Plan
	otherwise string
}

// LoadCatalogue reads every .yaml file of a folder. A file is named after its
// plan. otherwise names the plan of queries that name none.
func LoadCatalogue(folder fs.FS, otherwise string) (*Catalogue, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	c := &Catalogue{plans: map[string]Plan{}, otherwise: otherwise}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("read plan %s: %w", file, err)
		}
		p, err := ParsePlan(text)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", file, err)
		}
		if want := strings.TrimSuffix(path.Base(file), ".yaml"); p.Name != want {
			return nil, fmt.Errorf("plan %s: %w", file, schema.Invalid("name", "is %q; the file's name says %q", p.Name, want))
		}
		c.plans[p.Name] = p
	}
	if _, ok := c.plans[otherwise]; !ok {
		return nil, fmt.Errorf("load plans: %w", schema.Invalid("plan", "the default plan %q is not among: %s", otherwise, names(c.plans)))
	}
	return c, nil
}

// Plan returns the plan of that name, the default one for "". An unknown name
// gives a FieldError on "plan" that lists those that exist.
func (c *Catalogue) Plan(name string) (Plan, error) {
	if name == "" {
		name = c.otherwise
	}
	p, ok := c.plans[name]
	if !ok {
		return Plan{}, schema.Invalid("plan", "there is no plan %q; plans are: %s", name, names(c.plans))
	}
	return p, nil
}

// Names returns the names of all plans, sorted.
func (c *Catalogue) Names() []string { return slices.Sorted(maps.Keys(c.plans)) }

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
