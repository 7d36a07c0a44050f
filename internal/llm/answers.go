package llm

// This file has what the answers of all providers have in common. It parses the replies of language
// models, and keeps of a provider's answer only what the passages prove.

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// claim is a quote that a model gives as proof of a part of its answer.
type claim struct {
	Passage  *numbers `json:"passage"` // one, from 1
	Quote    string   `json:"quote"`
	Sentence numbers  `json:"sentence"` // of the answer, from 1
}

// numbers are whole numbers in any form that a model writes them: 1, "1", [1, 2]. Everything else
// is ignored: the numbers are hints, and not a reason to refuse a reply.
type numbers []int

func (n *numbers) UnmarshalJSON(data []byte) error {
	*n = nil
	for s := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r < '0' || r > '9' }) {
		if i, err := strconv.Atoi(s); err == nil {
			*n = append(*n, i)
		}
	}
	return nil
}

// readAnswer parses the JSON object of a model's answer into out: the text without citation marks,
// the quotes as they occur in the passages, and which sentence each quote is to prove. It reports
// whether the object has the form that was asked for. An answer that is written as a number, or
// that names a passage by its title, is accepted if it has a quote.
func readAnswer(content string, r wire.LLMRequest, out *Completion) bool {
	type answered struct {
		Answer    *flexibleText   `json:"answer"`
		Choice    json.RawMessage `json:"choice"`
		Citations []claim         `json:"citations"`
	}
	reply, ok := parseObject[answered](content, "answer")
	if !ok || reply.Answer == nil {
		return false
	}
	choice := 0
	if len(r.Choices) > 0 {
		if choice, ok = parseChoice(reply.Choice, r.Choices); !ok {
			return false
		}
	}
	body, marks := withoutMarks(text.Clean(reply.Answer.text))
	if len(r.Choices) > 0 { // the text of a choice is ours, not the model's
		body, marks = "", nil
		if choice > 0 {
			body = strings.TrimSpace(text.Clean(r.Choices[choice-1]))
		}
	}
	out.Text, out.Choice, out.Quotes = body, choice, nil
	claimed := make([]numbers, 0, len(reply.Citations))
	unquoted := !reply.Answer.quoted
	for _, c := range reply.Citations {
		passage := 0
		switch {
		case c.Passage == nil:
		case len(*c.Passage) == 1:
			passage = (*c.Passage)[0]
		default:
			unquoted = true // a title, perhaps
		}
		if q, ok := anchor(r.Passages, passage-1, c.Quote); ok {
			out.Quotes = append(out.Quotes, q)
			claimed = append(claimed, c.Sentence)
		}
	}
	if unquoted && len(out.Quotes) == 0 {
		return false
	}
	if safe := strings.TrimSpace(sanitize(body, knownOf(out.Quotes, r))); safe != body {
		body, out.Text, marks = safe, safe, nil // the marks' offsets are of the old text
	}
	out.Sentences = claims(body, out.Quotes, claimed, marks, len(r.Choices) > 0)
	return true
}

// claims returns which quotes the model says prove which sentence of body. It goes by the sentence
// numbers that came with the quotes and by the marks of passages in the text. All quotes are for an
// answer of one sentence, and for a choice (whole). The result is nil if the model says nothing.
func claims(body string, quotes []wire.Quote, claimed []numbers, marks []mark, whole bool) []wire.ReplySentence {
	if body == "" || len(quotes) == 0 {
		return nil
	}
	ranges := text.Sentences(body)
	if whole || len(ranges) == 1 {
		only := wire.ReplySentence{End: len(body)}
		for i := range quotes {
			only.Quotes = append(only.Quotes, i)
		}
		return []wire.ReplySentence{only}
	}
	hasMark := false
	out := make([]wire.ReplySentence, len(ranges))
	for i, r := range ranges {
		out[i] = wire.ReplySentence{Start: r.Start, End: r.End}
		for j, q := range quotes {
			// A mark behind the full stop belongs to the sentence before it.
			marked := slices.ContainsFunc(marks, func(m mark) bool {
				return m.passage == q.Passage+1 && r.Start < m.at && (m.at <= r.End || i == len(ranges)-1)
			})
			if marked || slices.Contains(claimed[j], i+1) {
				out[i].Quotes = append(out[i].Quotes, j)
				hasMark = true
			}
		}
	}
	if !hasMark {
		return nil
	}
	return out
}

// parseChoice returns the choice that a model names by its letter, number or text, counted from 1.
// No choice, "" or null, is 0.
func parseChoice(data json.RawMessage, choices []string) (choice int, ok bool) {
	value := strings.TrimSpace(strings.Trim(strings.TrimSpace(string(data)), `"`))
	var unquoted string
	if json.Unmarshal(data, &unquoted) == nil {
		value = strings.TrimSpace(unquoted)
	}
	if value == "" || value == "null" {
		return 0, true
	}
	if i, err := strconv.Atoi(value); err == nil {
		return i, i >= 1 && i <= len(choices)
	}
	for i, c := range choices {
		if strings.EqualFold(strings.Join(strings.Fields(value), " "), strings.Join(strings.Fields(c), " ")) {
			return i + 1, true
		}
	}
	head := strings.TrimLeft(value, "([")
	if head == "" || len(head) > 1 && !strings.ContainsRune(").:] ", rune(head[1])) {
		return 0, false
	}
	i := int(strings.ToUpper(head[:1])[0]) - 'A' + 1
	return i, i >= 1 && i <= len(choices)
}

// letter returns the letter of choice i: A for 0.
func letter(i int) string { return string(rune('A' + i)) }

// checkAnswer keeps the part of an answer that can be shown. An answer without a quote is none, a
// choice is one of the request's, and the text has no link that the quoted passages or the request
// lack.
func checkAnswer(r wire.LLMRequest, c Completion, reply *wire.LLMReply) {
	if c.Choice >= 1 && c.Choice <= len(r.Choices) {
		reply.Choice = c.Choice
	}
	reply.Text = strings.TrimSpace(sanitize(reply.Text, knownOf(reply.Quotes, r)))
	reply.Supported = reply.Text != "" && len(reply.Quotes) > 0
	if !reply.Supported {
		reply.Text, reply.Quotes = schema.NoAnswer, nil
		return
	}
	if reply.Withheld = c.Withheld; r.Risk != nil && *r.Risk < 1 && !c.Rated {
		reply.Withheld = notCalibrated
	}
	reply.Features = c.Features
	if reply.Withheld != "" { // the quotes stay, as the nearest passages
		reply.Text, reply.Supported = schema.NoAnswer, false
		return
	}
	if reply.Text == c.Text {
		reply.Sentences = provedSentences(c, reply)
	}
}

// knownOf returns the texts whose addresses may occur in an answer: the quoted passages with their
// titles and locations, and the asker's question and choices.
func knownOf(quotes []wire.Quote, r wire.LLMRequest) []string {
	out := make([]string, 0, 3*len(quotes)+len(r.Choices)+1)
	for _, q := range quotes {
		p := r.Passages[q.Passage]
		out = append(out, p.Text, p.Title, p.Location)
	}
	return append(append(out, r.Choices...), r.Question)
}

// provedSentences returns a completion's sentences with the quotes that were kept, or nil if the
// sentences do not tile the text.
func provedSentences(c Completion, reply *wire.LLMReply) []wire.ReplySentence {
	kept := make(map[int]int, len(c.Quotes)) // from indices in c.Quotes to reply.Quotes
	for i, q := range c.Quotes {
		at := slices.IndexFunc(reply.Quotes, func(o wire.Quote) bool { return o.Passage == q.Passage && o.Start == q.Start && o.End == q.End })
		if at >= 0 {
			kept[i] = at
		}
	}
	out := make([]wire.ReplySentence, 0, len(c.Sentences))
	end := 0
	for _, s := range c.Sentences {
		if s.Start != end || s.End <= s.Start || s.End > len(c.Text) {
			return nil
		}
		end = s.End
		quotes := s.Quotes
		s.Quotes = nil
		for _, i := range quotes {
			if at, ok := kept[i]; ok && !slices.Contains(s.Quotes, at) {
				s.Quotes = append(s.Quotes, at)
			}
		}
		out = append(out, s)
	}
	if end != len(c.Text) || len(out) == 0 {
		return nil
	}
	return out
}
