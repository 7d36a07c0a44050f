package plan

// This file derives a plan from another one: with other parameters, fewer stages or more stages.

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// Change describes how to derive a plan from another one. The steps are done in the order of the
// fields.
type Change struct {
	Without []string     // stages to remove, or segmentation, feedback or answer
	Append  []*yaml.Node // stages to append
	Set     []Setting    // parameters to set
}

// Setting is a new value of a field, such as "gradient.g", "hybrid.of.dense.weight",
// "limit[2].k" (of the second stage of that name) or "segmentation".
type Setting struct {
	Field string
	Value *yaml.Node
}

// sections are the sections of a plan besides its stages.
var sections = []string{"segmentation", "feedback", "answer"}

// Changed applies a change to the YAML of a plan, and returns the new YAML and its plan. If the
// plan does not have something that the change names, the error is on without[i], or on the
// setting's field below set. If the new plan is invalid, the error is that of Parse.
func Changed(text string, c Change) (string, Plan, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return "", Plan{}, schema.Invalid("plan", "is not YAML: %v", err)
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return "", Plan{}, schema.Invalid("plan", "is empty")
	}
	document := root.Content[0]
	for i, name := range c.Without {
		if !drop(document, name) {
			return "", Plan{}, schema.Invalid(fmt.Sprintf("without[%d]", i), "the plan has no %q", name)
		}
	}
	if stages, _ := within(document, "stages"); len(c.Append) > 0 && stages != nil && stages.Kind == yaml.SequenceNode {
		for _, n := range c.Append {
			stages.Content = append(stages.Content, clone(n))
		}
	}
	for _, s := range c.Set {
		if err := set(document, s); err != nil {
			return "", Plan{}, err
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(document); err != nil {
		return "", Plan{}, fmt.Errorf("write the changed plan: %w", err)
	}
	p, err := Parse(b.Bytes())
	return b.String(), p, err
}

// drop removes a section, or the stages with a name. It returns false if there are none.
func drop(document *yaml.Node, name string) bool {
	if slices.Contains(sections, name) {
		for i := 0; i+1 < len(document.Content); i += 2 {
			if document.Content[i].Value == name {
				document.Content = slices.Delete(document.Content, i, i+2)
				return true
			}
		}
		return false
	}
	stages, _ := within(document, "stages")
	if stages == nil {
		return false
	}
	before := len(stages.Content)
	stages.Content = slices.DeleteFunc(stages.Content, func(n *yaml.Node) bool { return itemName(n) == name })
	return len(stages.Content) < before
}

// set sets a field to a value.
func set(document *yaml.Node, s Setting) error {
	invalid := func(format string, args ...any) error { return schema.Invalid("set."+s.Field, format, args...) }
	parts := strings.Split(s.Field, ".")
	node := document
	if !slices.Contains(sections, parts[0]) {
		if len(parts) == 1 {
			return invalid("names only a stage: name one of its parameters, as in gradient.g")
		}
		if node, _ = within(document, "stages"); node == nil || node.Kind != yaml.SequenceNode {
			return invalid("the plan has no stages")
		}
	}
	for i, part := range parts {
		last := i == len(parts)-1
		if node.Kind == yaml.SequenceNode {
			item, err := itemOf(node, part)
			if err != nil {
				return invalid("%v", err)
			}
			if last {
				return invalid("names only %s: name one of its parameters", part)
			}
			node = item
			continue
		}
		if last {
			put(node, part, clone(s.Value))
			return nil
		}
		inner, _ := within(node, part)
		switch {
		case inner == nil:
			inner = &yaml.Node{Kind: yaml.MappingNode}
			put(node, part, inner)
		case inner.Kind == yaml.ScalarNode:
			return invalid("%s is %q, and has no parameters", part, inner.Value)
		}
		node = inner
	}
	return nil
}

// clone copies a node, so that several plans can be made from it.
func clone(n *yaml.Node) *yaml.Node {
	of := *n
	of.Content = nil
	for _, inner := range n.Content {
		of.Content = append(of.Content, clone(inner))
	}
	return &of
}

// put sets a field of a mapping.
func put(mapping *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
}

// numberedName matches a name with its number, from 1, among the items of the same name.
var numberedName = regexp.MustCompile(`^(.+)\[([1-9][0-9]*)\]$`)

// itemOf finds the parameters of an item of a list such as stages, by its name.
func itemOf(list *yaml.Node, name string) (*yaml.Node, error) {
	place := 0
	if m := numberedName.FindStringSubmatch(name); m != nil {
		name = m[1]
		place, _ = strconv.Atoi(m[2]) // only digits; a number that is too large matches no item
	}
	var found []*yaml.Node
	var names []string
	for _, item := range list.Content {
		names = append(names, itemName(item))
		if itemName(item) == name {
			found = append(found, item)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("there is no %q; there are: %s", name, strings.Join(names, ", "))
	case place == 0 && len(found) > 1:
		return nil, fmt.Errorf("there are %d of %q: say which, as in %s[1]", len(found), name, name)
	case place > len(found):
		return nil, fmt.Errorf("there are only %d of %q", len(found), name)
	}
	item := found[max(place, 1)-1]
	if item.Kind == yaml.ScalarNode { // "- gradient": all parameters at their defaults
		*item = yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: name}, {Kind: yaml.MappingNode}}}
	}
	if inner := item.Content[1]; inner.Kind != yaml.MappingNode {
		item.Content[1] = &yaml.Node{Kind: yaml.MappingNode}
	}
	return item.Content[1], nil
}

// itemName returns the name of an item of a list: "dense" of "- dense: {k: 10}".
func itemName(item *yaml.Node) string {
	if item.Kind == yaml.MappingNode && len(item.Content) > 0 {
		return item.Content[0].Value
	}
	return item.Value
}
