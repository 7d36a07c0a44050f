package plan

// This file finds where in a plan's text a field stands, for whoever writes one.

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// inLine has an error about a field say in which line the field stands; the line of what it is
// missing from, when it is missing.
func inLine(err error, document *yaml.Node) error {
	var wrong *schema.FieldError
	if !errors.As(err, &wrong) {
		return err
	}
	return schema.Invalid(wrong.Field, "line %d: %s", lineOf(document, wrong.Field), wrong.Problem)
}

// lineOf follows a field such as stages[2].hybrid.of[0].lexical.weight as far as it goes.
func lineOf(node *yaml.Node, field string) int {
	line := max(1, node.Line)
	for _, part := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, at := within(node, part)
		if next == nil {
			return line
		}
		node, line = next, at
	}
	return line
}

// within is a value inside node, by its key or its number, and the line in which it begins.
func within(node *yaml.Node, part string) (value *yaml.Node, line int) {
	switch node.Kind {
	case yaml.MappingNode:
		// The last of several of a name: it is the one too many.
		for i := len(node.Content) - 2; i >= 0; i -= 2 {
			if key := node.Content[i]; key.Value == part {
				return node.Content[i+1], key.Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}
