package llm

// This file reads the JSON objects that language models reply with.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// parseObject reads the JSON object in a reply, whatever stands around it.
func parseObject(content string, into any) bool {
	start, end := strings.IndexByte(content, '{'), strings.LastIndexByte(content, '}')
	return start >= 0 && end > start && json.Unmarshal([]byte(content[start:end+1]), into) == nil
}

// closed is the JSON object in a reply that was cut off, or is malformed, as far as it
// is whole: what is not goes, and what is open is closed. False: there is nothing.
func closed(content string) (object string, ok bool) {
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

// parseRewrite reads a question in other words.
func parseRewrite(content string) (question string, ok bool) {
	var reply struct {
		Question string `json:"question"`
	}
	ok = parseObject(content, &reply)
	question = strings.TrimSpace(reply.Question)
	return question, ok && question != ""
}

// parseScores reads as many judgements from 0 to 1 as there are passages; whole
// says that each is one or the other.
func parseScores(content string, passages int, whole bool) ([]float64, bool) {
	var reply struct {
		Scores []float64 `json:"scores"`
	}
	if !parseObject(content, &reply) || len(reply.Scores) != passages {
		return nil, false
	}
	for _, x := range reply.Scores {
		if !(x >= 0 && x <= 1) || whole && x != 0 && x != 1 {
			return nil, false
		}
	}
	return reply.Scores, true
}
