package plan

// This file finds the line of a field in a plan's text, for error messages.

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// inLine adds to an error about a field the line of that field. If the field is missing, it is the
// line of the mapping that lacks it.
func inLine(err error, document *yaml.Node) error {
	var wrong *schema.FieldError
	if !errors.As(err, &wrong) {
		return err
	}
	return schema.Invalid(wrong.Field, "line %d: %s", lineOf(document, wrong.Field), wrong.Problem)
}

// lineOf follows a path such as stages[2].hybrid.of[0].lexical.weight as far as it exists, and
// returns the line.
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

// within returns a value inside node, by key or index, and the line in which it begins.
func within(node *yaml.Node, part string) (value *yaml.Node, line int) {
	switch node.Kind {
	case yaml.MappingNode:
		// If a key is repeated, the last one is the one in error.
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
