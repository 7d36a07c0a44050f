package schema

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Op is a comparison operator for a metadata value.
type Op string

// Operators of a condition.
const (
	OpEq Op = "="
	OpLt Op = "<"
	OpLe Op = "<="
	OpGt Op = ">"
	OpGe Op = ">="
	OpIn Op = "in"
)

// Condition selects candidates by one metadata key. Values are text; the store compares them as
// whole numbers or times if the stored value is one.
type Condition struct {
	Key    string   `json:"key"`
	Op     Op       `json:"op"`
	Values []string `json:"values"`
}

// Filter is a conjunction of conditions.
type Filter []Condition

// ParseFilter reads conditions joined by "and", for example
//
//	department = finance and year >= 2024 and region in (emea, "north america")
//
// The empty string is the empty filter. Errors are FieldErrors on "filter".
func ParseFilter(text string) (Filter, error) {
	tokens, err := filterTokens(text)
	if err != nil {
		return nil, err
	}
	var out Filter
	for i := 0; i < len(tokens); {
		if len(out) > 0 {
			if !strings.EqualFold(tokens[i], "and") {
				return nil, Invalid("filter", "expected \"and\" before %q", tokens[i])
			}
			i++
		}
		if i+2 >= len(tokens) {
			return nil, Invalid("filter", "condition %d is cut off: write key = value", len(out)+1)
		}
		c := Condition{Key: unquote(tokens[i]), Op: Op(strings.ToLower(tokens[i+1]))}
		i += 2
		switch c.Op {
		case OpEq, OpLt, OpLe, OpGt, OpGe:
			if strings.Trim(tokens[i], "<=>") == "" { // such as "==", which is two tokens
				return nil, Invalid("filter", "%q is not an operator; use = < <= > >= in", string(c.Op)+tokens[i])
			}
			c.Values = []string{unquote(tokens[i])}
			i++
		case OpIn:
			if tokens[i] != "(" {
				return nil, Invalid("filter", "\"in\" needs a list: %s in (a, b)", c.Key)
			}
			for i++; i < len(tokens) && tokens[i] != ")"; i++ {
				if tokens[i] != "," {
					c.Values = append(c.Values, unquote(tokens[i]))
				}
			}
			if i == len(tokens) {
				return nil, Invalid("filter", "the list of %q is not closed", c.Key)
			}
			i++
		default:
			return nil, Invalid("filter", "%q is not an operator; use = < <= > >= in", string(c.Op))
		}
		out = append(out, c)
	}
	return out, out.Validate()
}

// Validate returns an error for the first condition that is malformed.
func (f Filter) Validate() error {
	for i, c := range f {
		field := fmt.Sprintf("filter[%d]", i)
		if c.Key == "" || len(c.Key) > 128 {
			return Invalid(field, "a key has 1 to 128 bytes")
		}
		switch {
		case c.Op == OpIn && len(c.Values) == 0:
			return Invalid(field, "\"in\" needs at least one value")
		case c.Op == OpIn && len(c.Values) > 1000:
			return Invalid(field, "\"in\" takes at most 1000 values")
		case c.Op != OpIn && len(c.Values) != 1:
			return Invalid(field, "%s takes one value", c.Op)
		}
		switch c.Op {
		case OpEq, OpLt, OpLe, OpGt, OpGe, OpIn:
		default:
			return Invalid(field, "%q is not an operator", string(c.Op))
		}
	}
	if len(f) > 50 {
		return Invalid("filter", "at most 50 conditions")
	}
	return nil
}

// ParseTime parses a time in a format that metadata may use: RFC 3339 or a date.
func ParseTime(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func unquote(token string) string {
	if len(token) >= 2 && token[0] == '"' {
		return strings.ReplaceAll(token[1:len(token)-1], `\"`, `"`)
	}
	return token
}

func filterTokens(text string) ([]string, error) {
	var out []string
	runes := []rune(text)
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case unicode.IsSpace(r):
			i++
		case r == '"':
			j := i + 1
			for j < len(runes) && runes[j] != '"' {
				if runes[j] == '\\' {
					j++
				}
				j++
			}
			if j >= len(runes) {
				return nil, Invalid("filter", "a quoted value is not closed")
			}
			out = append(out, string(runes[i:j+1]))
			i = j + 1
		case strings.ContainsRune("(),", r):
			out = append(out, string(r))
			i++
		case strings.ContainsRune("<>=", r):
			j := i + 1
			if j < len(runes) && runes[j] == '=' {
				j++
			}
			out = append(out, string(runes[i:j]))
			i = j
		default:
			j := i
			for j < len(runes) && !unicode.IsSpace(runes[j]) && !strings.ContainsRune(`"(),<>=`, runes[j]) {
				j++
			}
			out = append(out, string(runes[i:j]))
			i = j
		}
	}
	return out, nil
}
