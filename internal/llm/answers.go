package llm

// This file is what all providers' answers have in common: what a language model
// replies is read, and of what a provider says only what the passages bear out is
// kept.

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// claim is what a model says proves a part of its answer.
type claim struct {
	Passage  *numbers `json:"passage"` // one, from 1
	Quote    string   `json:"quote"`
	Sentence numbers  `json:"sentence"` // of the answer, from 1
}

// numbers are whole numbers however a model writes them: 1, "1", [1, 2]. What is
// none is left out: they are hints, and no reason to refuse a reply.
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

// readAnswer reads the JSON object of a model's answer into out: its text without
// marks of citations, its quotes as they stand in the passages, and which sentence
// each is to prove. It reports whether the object has the form that was asked for; an
// answer that is written as a number, or names a passage by its title, has it when
// there is a quote.
func readAnswer(content string, r wire.LLMRequest, out *Completion) bool {
	type answered struct {
		Answer    *words          `json:"answer"`
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
	odd := !reply.Answer.quoted
	for _, c := range reply.Citations {
		passage := 0
		switch {
		case c.Passage == nil:
		case len(*c.Passage) == 1:
			passage = (*c.Passage)[0]
		default:
			odd = true // a title, perhaps
		}
		if q, ok := anchor(r.Passages, passage-1, c.Quote); ok {
			out.Quotes = append(out.Quotes, q)
			claimed = append(claimed, c.Sentence)
		}
	}
	if odd && len(out.Quotes) == 0 {
		return false
	}
	if safe := strings.TrimSpace(harmless(body, knownOf(out.Quotes, r))); safe != body {
		body, out.Text, marks = safe, safe, nil // which no longer say where they stood
	}
	out.Sentences = claims(body, out.Quotes, claimed, marks, len(r.Choices) > 0)
	return true
}

// claims says which quotes are said to prove which sentence of body: by the
// numbers that came with the quotes, and by the marks of passages that stood in
// the text. An answer of one sentence, or a choice, is what all quotes are for.
// None: nothing is said.
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
	said := false
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
				said = true
			}
		}
	}
	if !said {
		return nil
	}
	return out
}

// parseChoice reads the choice that a model names: by its letter, by its number,
// or by its words. None, "", is 0.
func parseChoice(data json.RawMessage, choices []string) (choice int, ok bool) {
	said := strings.TrimSpace(strings.Trim(strings.TrimSpace(string(data)), `"`))
	var unquoted string
	if json.Unmarshal(data, &unquoted) == nil {
		said = strings.TrimSpace(unquoted)
	}
	if said == "" || said == "null" {
		return 0, true
	}
	if i, err := strconv.Atoi(said); err == nil {
		return i, i >= 1 && i <= len(choices)
	}
	for i, c := range choices {
		if strings.EqualFold(strings.Join(strings.Fields(said), " "), strings.Join(strings.Fields(c), " ")) {
			return i + 1, true
		}
	}
	head := strings.TrimLeft(said, "([")
	if head == "" || len(head) > 1 && !strings.ContainsRune(").:] ", rune(head[1])) {
		return 0, false
	}
	i := int(strings.ToUpper(head[:1])[0]) - 'A' + 1
	return i, i >= 1 && i <= len(choices)
}

// letter names a choice: A for 0.
func letter(i int) string { return string(rune('A' + i)) }

// checkAnswer keeps of an answer what can be shown: without a quote there is
// none, a choice is one of the request's, and its text has no link that is not
// in what it cites.
func checkAnswer(r wire.LLMRequest, c Completion, reply *wire.LLMReply) {
	if c.Choice >= 1 && c.Choice <= len(r.Choices) {
		reply.Choice = c.Choice
	}
	reply.Text = strings.TrimSpace(harmless(reply.Text, knownOf(reply.Quotes, r)))
	reply.Supported = reply.Text != "" && len(reply.Quotes) > 0
	if !reply.Supported {
		reply.Text, reply.Quotes = schema.NoAnswer, nil
		return
	}
	if reply.Withheld = c.Withheld; r.Risk != nil && *r.Risk < 1 && !c.Rated {
		reply.Withheld = notCalibrated
	}
	reply.Features = c.Features
	if reply.Withheld != "" { // the quotes stay, as what is nearest
		reply.Text, reply.Supported = schema.NoAnswer, false
		return
	}
	if reply.Text == c.Text {
		reply.Sentences = provedSentences(c, reply)
	}
}

// knownOf are the texts whose addresses may stand in an answer: of the passages that
// are quoted, with their titles and places, and of the asker.
func knownOf(quotes []wire.Quote, r wire.LLMRequest) []string {
	out := make([]string, 0, 3*len(quotes)+len(r.Choices)+1)
	for _, q := range quotes {
		p := r.Passages[q.Passage]
		out = append(out, p.Text, p.Title, p.Location)
	}
	return append(append(out, r.Choices...), r.Question)
}

// provedSentences are a completion's sentences if they tile its text, with the
// quotes that were kept.
func provedSentences(c Completion, reply *wire.LLMReply) []wire.ReplySentence {
	kept := make(map[int]int, len(c.Quotes)) // from a quote of c to its place in the reply
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
