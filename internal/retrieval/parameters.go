package retrieval

// This file reads the parameters of stages. What is wrong is told by the
// field's name.

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

// parameters is a YAML mapping that is read field by field; the first thing
// wrong is kept, and what nobody asked for is wrong too.
type parameters struct {
	field  string
	values map[string]*yaml.Node
	given  map[string]any // what was read, defaults too
	err    error
}

func readParameters(field string, node *yaml.Node) (*parameters, error) {
	p := &parameters{field: field, values: map[string]*yaml.Node{}, given: map[string]any{}}
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
		p.given[name] = node.Value
		return node.Value
	}
	return ""
}

func (p *parameters) whole(name string, otherwise, least, most int) int {
	p.given[name] = otherwise
	node := p.take(name)
	if node == nil {
		return otherwise
	}
	n, err := strconv.Atoi(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || n < least || n > most {
		p.fail(name, "needs a whole number from %d to %d, found %q", least, most, node.Value)
		return otherwise
	}
	p.given[name] = n
	return n
}

func (p *parameters) number(name string, otherwise, least, most float64) float64 {
	p.given[name] = otherwise
	node := p.take(name)
	if node == nil {
		return otherwise
	}
	x, err := strconv.ParseFloat(node.Value, 64)
	// Written so that NaN, which is neither less nor more, is refused.
	if node.Kind != yaml.ScalarNode || err != nil || !(x >= least && x <= most) {
		p.fail(name, "needs a number from %g to %g, found %q", least, most, node.Value)
		return otherwise
	}
	p.given[name] = x
	return x
}

// flag reads true or false, false by default.
func (p *parameters) flag(name string) bool {
	p.given[name] = false
	node := p.take(name)
	if node == nil {
		return false
	}
	if node.Kind != yaml.ScalarNode || node.Value != "true" && node.Value != "false" {
		p.fail(name, "needs true or false, found %q", node.Value)
		return false
	}
	p.given[name] = node.Value == "true"
	return node.Value == "true"
}

// choice reads one of some words; the first is the default.
func (p *parameters) choice(name string, words ...string) string {
	p.given[name] = words[0]
	node := p.take(name)
	if node == nil {
		return words[0]
	}
	if node.Kind != yaml.ScalarNode || !slices.Contains(words, node.Value) {
		p.fail(name, "is %q; it may be: %s", node.Value, strings.Join(words, ", "))
		return words[0]
	}
	p.given[name] = node.Value
	return node.Value
}

func (p *parameters) unit(name string) schema.Unit {
	return schema.Unit(p.choice(name, string(schema.UnitPassage), string(schema.UnitSection), string(schema.UnitDocument), string(schema.UnitCluster)))
}

// list reads a list of "name: {parameters}" items.
func (p *parameters) list(name string, least, most int, read func(item *parameters, kind string)) {
	node := p.take(name)
	if node == nil || node.Kind != yaml.SequenceNode || len(node.Content) < least || len(node.Content) > most {
		p.fail(name, "needs a list of %d to %d items", least, most)
		return
	}
	var all []any
	for i, item := range node.Content {
		kind, params, err := named(fmt.Sprintf("%s[%d]", p.at(name), i), "component", "- lexical: {unit: passage}", item)
		if err == nil {
			read(params, kind)
			err = params.close()
			all = append(all, map[string]any{kind: params.given})
		}
		if err != nil && p.err == nil {
			p.err = err
		}
	}
	p.given[name] = all
}

// refuse finds fault with the mapping itself.
func (p *parameters) refuse(format string, args ...any) {
	if p.err == nil {
		p.err = schema.Invalid(p.field, format, args...)
	}
}

func (p *parameters) close() error {
	if p.err == nil && len(p.values) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(p.values)))
		p.fail(name, "there is no such field")
	}
	return p.err
}
