package llm

// This file parses the JSON objects that language models reply with.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxObjects bounds how many braces of a reply are tried as the beginning of the object.
const maxObjects = 200

// parseObject parses the JSON object that has a member, and ignores what surrounds it: reasoning,
// prose, other objects. If several such objects differ, none counts: one may be text that a
// document made the model repeat.
func parseObject[T any](content, member string) (out T, ok bool) {
	content = withoutReasoning(content)
	for tries := 0; tries < maxObjects; tries++ {
		start := strings.IndexByte(content, '{')
		if start < 0 {
			break
		}
		content = content[start:]
		tokens := json.NewDecoder(strings.NewReader(content))
		var members map[string]json.RawMessage
		if tokens.Decode(&members) != nil {
			content = content[1:] // a brace in prose, or of an enclosing text
			continue
		}
		whole := content[:tokens.InputOffset()]
		content = content[len(whole):]
		var read T
		switch _, has := members[member]; {
		case !has || json.Unmarshal([]byte(whole), &read) != nil:
		case ok && !reflect.DeepEqual(out, read):
			return out, false
		default:
			out, ok = read, true
		}
	}
	return out, ok
}

// closeObject returns the complete part of a JSON object that was cut off or is malformed, with its
// open brackets closed. Incomplete values are dropped. ok is false if no value is complete.
func closeObject(content string) (object string, ok bool) {
	content = withoutReasoning(content)
	start := strings.IndexByte(content, '{')
	if start < 0 {
		return "", false
	}
	content = content[start:]
	tokens := json.NewDecoder(strings.NewReader(content))
	var open []byte // the closing brackets of what is open, outermost first
	key := false    // the next string is the name of a member
	var last string // content up to the end of the last value, closed
	for {
		token, err := tokens.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				last = object // the value before a syntax error may be part of it
			}
			return last, last != ""
		}
		object = last
		switch token {
		case json.Delim('{'):
			open, key = append(open, '}'), true
			continue
		case json.Delim('['):
			open, key = append(open, ']'), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if key {
				key = false
				continue
			}
		}
		at := int(tokens.InputOffset())
		if at == len(content) && !strings.ContainsRune("\"}]", rune(content[at-1])) {
			return last, last != "" // a number or a word that may be incomplete
		}
		closing := slices.Clone(open)
		slices.Reverse(closing)
		if last = content[:at] + string(closing); len(open) == 0 {
			return last, true
		}
		key = open[len(open)-1] == '}'
	}
}

// flexibleText is a text that some models write as a number or a boolean.
type flexibleText struct {
	text   string
	quoted bool // it is a JSON string
}

func (w *flexibleText) UnmarshalJSON(data []byte) error {
	if w.quoted = json.Unmarshal(data, &w.text) == nil; w.quoted {
		return nil
	}
	if data[0] == '[' || data[0] == '{' {
		return fmt.Errorf("%.20s is not a text", data)
	}
	w.text = string(data)
	return nil
}

// number is a whole number that some models write as a string.
type number int

func (n *number) UnmarshalJSON(data []byte) error {
	i, err := strconv.Atoi(strings.Trim(string(data), `"`))
	if err != nil {
		return fmt.Errorf("%s is not a whole number", data)
	}
	*n = number(i)
	return nil
}

// rating is a judgement that some models write as a string.
type rating float64

func (r *rating) UnmarshalJSON(data []byte) error {
	x, err := strconv.ParseFloat(strings.TrimSpace(strings.Trim(string(data), `"`)), 64)
	if err != nil {
		return fmt.Errorf("%.20s is not a number", data)
	}
	*r = rating(x)
	return nil
}

// parseText parses a rewritten question or a passage, whichever member names.
func parseText(content, member string) (text string, ok bool) {
	type rewritten struct {
		Question string `json:"question"`
		Passage  string `json:"passage"`
	}
	reply, ok := parseObject[rewritten](content, member)
	if text = strings.TrimSpace(reply.Question); member == PromptPassage {
		text = strings.TrimSpace(reply.Passage)
	}
	return text, ok && text != ""
}

// parseScores parses one judgement from 0 to 1 for each passage. With whole, each must be 0 or 1.
func parseScores(content string, passages int, whole bool) ([]float64, bool) {
	type judged struct {
		Scores []rating `json:"scores"`
	}
	reply, ok := parseObject[judged](content, "scores")
	if !ok || len(reply.Scores) != passages {
		return nil, false
	}
	scores := make([]float64, passages)
	for i, x := range reply.Scores {
		if !(x >= 0 && x <= 1) || whole && x != 0 && x != 1 {
			return nil, false
		}
		scores[i] = float64(x)
	}
	return scores, true
}
