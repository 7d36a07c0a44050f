package llm

// This file reads the JSON objects that language models reply with.

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

// maxObjects bounds how many places of a reply are tried as the beginning of its object.
const maxObjects = 200

// parseObject reads the JSON object with a member in a reply, whatever stands around it: reasoning,
// prose, other objects. Of several that have the form none counts, unless they are the same: one
// may be what a document has the model say.
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
			content = content[1:] // a brace of prose, or what is around an object
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

// closed is the JSON object in a reply that was cut off, or is malformed, as far as it
// is whole: what is not goes, and what is open is closed. False: there is nothing.
func closed(content string) (object string, ok bool) {
	content = withoutReasoning(content)
	start := strings.IndexByte(content, '{')
	if start < 0 {
		return "", false
	}
	content = content[start:]
	tokens := json.NewDecoder(strings.NewReader(content))
	var open []byte // the brackets that close what is open, the outermost first
	key := false    // the next text is the name of a member
	var last string // content to the end of the last value, closed
	for {
		token, err := tokens.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				last = object // what stands before an error may be a part of it
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
			return last, last != "" // a number or a word that may have gone on
		}
		closing := slices.Clone(open)
		slices.Reverse(closing)
		if last = content[:at] + string(closing); len(open) == 0 {
			return last, true
		}
		key = open[len(open)-1] == '}'
	}
}

// words is a text that some models write as a number or as true.
type words struct {
	text   string
	quoted bool // it is written as a text
}

func (w *words) UnmarshalJSON(data []byte) error {
	if w.quoted = json.Unmarshal(data, &w.text) == nil; w.quoted {
		return nil
	}
	if data[0] == '[' || data[0] == '{' {
		return fmt.Errorf("%.20s is no text", data)
	}
	w.text = string(data)
	return nil
}

// number is a whole number that some models write as text.
type number int

func (n *number) UnmarshalJSON(data []byte) error {
	i, err := strconv.Atoi(strings.Trim(string(data), `"`))
	if err != nil {
		return fmt.Errorf("%s is not a passage number", data)
	}
	*n = number(i)
	return nil
}

// rating is a judgement that some models write as text.
type rating float64

func (r *rating) UnmarshalJSON(data []byte) error {
	x, err := strconv.ParseFloat(strings.TrimSpace(strings.Trim(string(data), `"`)), 64)
	if err != nil {
		return fmt.Errorf("%.20s is no number", data)
	}
	*r = rating(x)
	return nil
}

// parseText reads what a question becomes: other words of it, or a passage.
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

// parseScores reads as many judgements from 0 to 1 as there are passages; whole
// says that each is one or the other.
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
