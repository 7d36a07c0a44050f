package stage

// This file reads the parameters of stages. Errors name the field that is wrong.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// Parameters is a YAML mapping that is read field by field. It keeps the first error. A field that
// was never read is an error too.
type Parameters struct {
	field  string
	values map[string]*yaml.Node
	known  []string       // names of the fields that were read
	Given  map[string]any // the values that were read, including defaults
	Err    error
}

// ReadParameters reads a mapping. field is its name in errors.
func ReadParameters(field string, node *yaml.Node) (*Parameters, error) {
	p := &Parameters{field: field, values: map[string]*yaml.Node{}, Given: map[string]any{}}
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

func (p *Parameters) at(name string) string {
	if name == "" {
		name = `""`
	}
	if p.field == "" {
		return name
	}
	return p.field + "." + name
}

// Take returns the node of a field; nil if it is missing.
func (p *Parameters) Take(name string) *yaml.Node {
	p.known = append(p.known, name)
	node := p.values[name]
	delete(p.values, name)
	return node
}

// Fail records an error on a field, unless there is one already.
func (p *Parameters) Fail(name, format string, args ...any) {
	if p.Err == nil {
		p.Err = schema.Invalid(p.at(name), format, args...)
	}
}

// Text reads a string that is not blank.
func (p *Parameters) Text(name string, required bool) string {
	node := p.Take(name)
	switch {
	case node == nil && required:
		p.Fail(name, "is missing")
	case node == nil:
	case node.Kind != yaml.ScalarNode || strings.TrimSpace(node.Value) == "":
		p.Fail(name, "needs a text")
	default:
		p.Given[name] = node.Value
		return node.Value
	}
	return ""
}

// Int reads an integer from low to high.
func (p *Parameters) Int(name string, fallback, low, high int) int {
	p.Given[name] = fallback
	node := p.Take(name)
	if node == nil {
		return fallback
	}
	n, err := strconv.Atoi(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || n < low || n > high {
		p.Fail(name, "needs a whole number from %d to %d, found %q", low, high, node.Value)
		return fallback
	}
	p.Given[name] = n
	return n
}

func (p *Parameters) number(name string, fallback, low, high float64) float64 {
	p.Given[name] = fallback
	node := p.Take(name)
	if node == nil {
		return fallback
	}
	x, err := strconv.ParseFloat(node.Value, 64)
	// The comparison is written so that it refuses NaN.
	if node.Kind != yaml.ScalarNode || err != nil || !(x >= low && x <= high) {
		p.Fail(name, "needs a number from %g to %g, found %q", low, high, node.Value)
		return fallback
	}
	p.Given[name] = x
	return x
}

// bool reads true or false, false by default.
func (p *Parameters) bool(name string) bool {
	p.Given[name] = false
	node := p.Take(name)
	if node == nil {
		return false
	}
	if node.Kind != yaml.ScalarNode || node.Value != "true" && node.Value != "false" {
		p.Fail(name, "needs true or false, found %q", node.Value)
		return false
	}
	p.Given[name] = node.Value == "true"
	return node.Value == "true"
}

// Choice reads one of the words; the first is the default.
func (p *Parameters) Choice(name string, words ...string) string {
	p.Given[name] = words[0]
	node := p.Take(name)
	if node == nil {
		return words[0]
	}
	if node.Kind != yaml.ScalarNode || !slices.Contains(words, node.Value) {
		p.Fail(name, "is %q; it may be: %s", node.Value, strings.Join(words, ", "))
		return words[0]
	}
	p.Given[name] = node.Value
	return node.Value
}

func (p *Parameters) unit(name string) schema.Unit {
	return schema.Unit(p.Choice(name, string(schema.UnitPassage), string(schema.UnitSection), string(schema.UnitDocument), string(schema.UnitCluster)))
}

// list reads a list of "name: {parameters}" items.
func (p *Parameters) list(name string, low, high int, read func(item *Parameters, kind string)) {
	node := p.Take(name)
	if node == nil || node.Kind != yaml.SequenceNode || len(node.Content) < low || len(node.Content) > high {
		p.Fail(name, "needs a list of %d to %d items", low, high)
		return
	}
	var all []any
	for i, item := range node.Content {
		kind, params, err := ReadNamed(fmt.Sprintf("%s[%d]", p.at(name), i), "component", "- lexical: {unit: passage}", item)
		if err == nil {
			read(params, kind)
			err = params.Close()
			all = append(all, map[string]any{kind: params.Given})
		}
		if err != nil && p.Err == nil {
			p.Err = err
		}
	}
	p.Given[name] = all
}

// refuse records an error on the mapping itself.
func (p *Parameters) refuse(format string, args ...any) {
	if p.Err == nil {
		p.Err = schema.Invalid(p.field, format, args...)
	}
}

// Close returns the first error, including that of a field that was never read.
func (p *Parameters) Close() error {
	if p.Err == nil && len(p.values) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(p.values)))
		slices.Sort(p.known)
		others := ""
		if len(p.known) > 0 {
			others = "; there are: " + strings.Join(slices.Compact(p.known), ", ")
		}
		p.Fail(name, "there is no such field%s", others)
	}
	return p.Err
}

// ReadNamed reads "name: {parameters}", or a name alone.
func ReadNamed(field, what, example string, node *yaml.Node) (name string, p *Parameters, err error) {
	if node.Kind == yaml.ScalarNode { // "- dense": all parameters at their defaults
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{node, {Kind: yaml.MappingNode}}}
	}
	if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
		return "", nil, schema.Invalid(field, "write one %s per item, for example %q", what, example)
	}
	name = node.Content[0].Value
	p, err = ReadParameters(field+"."+name, node.Content[1])
	return name, p, err
}
