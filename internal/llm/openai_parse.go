package llm

// This file reads the JSON objects that language models reply with.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// parseObject reads the JSON object in a reply, whatever stands around it.
func parseObject(content string, into any) bool {
	start, end := strings.IndexByte(content, '{'), strings.LastIndexByte(content, '}')
	return start >= 0 && end > start && json.Unmarshal([]byte(content[start:end+1]), into) == nil
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
