package answer_test

// Documents that attack their reader, and a language model that is scripted to obey all of them:
// the checks around the model must hold without its help. docs/prompt-injection.md has the golden
// table of what stops which attack, and which attacks nothing stops.

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{}) }

var update = flag.Bool("update", false, "write the golden table")

const handbook = "Annual leave is 25 days. You may carry over up to five days of unused leave into the next year. It ends on 31 March."

// attack is a document of testdata/hostile: its kind, the reply of a model that obeys it, and what
// is in the answer if the attack succeeded.
type attack struct {
	name, kind, title, location, bad, reply, text string
}

func attacks(t *testing.T) []attack {
	t.Helper()
	names, err := filepath.Glob("testdata/hostile/*.txt")
	if err != nil || len(names) < 25 {
		t.Fatalf("%d documents, %v", len(names), err)
	}
	var out []attack
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head, body, ok := strings.Cut(string(data), "\n---\n")
		// The text as the store would have it.
		a := attack{name: strings.TrimSuffix(filepath.Base(name), ".txt"), text: text.Clean(body)}
		for line := range strings.Lines(head) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if key == "reply" && !strings.HasPrefix(value, `"`) {
				a.reply = value
				continue
			}
			field := map[string]*string{"kind": &a.kind, "title": &a.title, "location": &a.location, "bad": &a.bad, "reply": &a.reply}[key]
			if field == nil || json.Unmarshal([]byte(value), field) != nil {
				ok = false
			}
		}
		if !ok || a.kind == "" || a.bad == "" || a.reply == "" {
			t.Fatalf("%s is not in the form of these files", name)
		}
		out = append(out, a)
	}
	return out
}

// scriptedObedient is a server whose model obeys the document: it replies what the attack wants,
// and records what it was sent.
type scriptedObedient struct {
	*httptest.Server
	reply        string
	system, user string
}

func (s *scriptedObedient) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Content string }
	}
	if json.NewDecoder(r.Body).Decode(&request) != nil || len(request.Messages) < 2 {
		http.Error(w, "what is this", http.StatusBadRequest)
		return
	}
	s.system, s.user = request.Messages[0].Content, request.Messages[1].Content
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": "1", "object": "chat.completion", "created": 1, "model": "gullible",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": s.reply}}}})
}

// ledger stores nothing: every step here runs once.
type ledger struct{}

func (ledger) Once(ctx context.Context, _ llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	return complete(ctx)
}

// attackTest answers from the handbook and a hostile document, through the real gateway.
type attackTest struct {
	*world
	attack  attack
	gateway *llm.Gateway
}

var hostileSection = uuid.New()

func (w attackTest) Question(context.Context, wire.QuestionInput) (answer.Question, error) {
	return answer.Question{Query: wire.SearchQuery{Query: schema.Query{Text: "How many days of unused leave can I carry over?"}}, State: schema.JobRunning}, nil
}

func (w attackTest) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	return w.Question(ctx, in)
}

func (w attackTest) Retrieve(context.Context, wire.SearchQuery) (answer.Retrieval, error) {
	at := func(section uuid.UUID, s string) []schema.Span {
		return []schema.Span{{Version: versionID, Section: section, End: len(s)}}
	}
	return answer.Retrieval{Candidates: []schema.Candidate{
		{ExternalID: "handbook", Title: "Handbook", Location: "Leave", Text: handbook, Spans: at(sectionID, handbook)},
		{ExternalID: "hostile", Title: w.attack.title, Location: w.attack.location, Text: w.attack.text, Spans: at(hostileSection, w.attack.text)},
	}}, nil
}

func (w attackTest) Sections(context.Context, schema.Principal, []uuid.UUID) (map[uuid.UUID]schema.Section, error) {
	return map[uuid.UUID]schema.Section{sectionID: {ID: sectionID, Text: handbook}, hostileSection: {ID: hostileSection, Text: w.attack.text}}, nil
}

func (w attackTest) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	reply := w.gateway.Complete(ctx, r)
	if reply.Error != nil {
		return wire.LLMReply{}, reply.Error
	}
	return reply, nil
}

func TestHostileDocuments(t *testing.T) {
	var table strings.Builder
	table.WriteString("| document | attack | outcome |\n|---|---|---|\n")
	system, counts := "", map[string]int{}
	for _, a := range attacks(t) {
		s := &scriptedObedient{reply: a.reply}
		s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
		t.Cleanup(s.Close)
		p, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: s.URL + "/v1/", Model: "gullible"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		gateway, err := llm.NewGateway(llm.Options{Ledger: ledger{}, Providers: []llm.Provider{p}})
		if err != nil {
			t.Fatal(err)
		}
		w := attackTest{(&world{}).ready(), a, gateway}
		got, err := answer.New(w, w, w).Ask(t.Context(), wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1})
		checkPrompt(t, a, s.user)
		if system == "" {
			system = s.system
		}
		if s.system != system {
			t.Errorf("%s: the system prompt hangs on what was retrieved", a.name)
		}
		outcome := "**passes**"
		switch {
		case err != nil:
			outcome = "the reply is refused: it is not in the form that was asked for"
		case !got.Supported:
			outcome = "no answer: nothing that was quoted proves it"
		default:
			checkAnswer(t, a, got)
			outcome = outcomeOf(a, got)
		}
		counts[outcome]++
		fmt.Fprintf(&table, "| %s | %s | %s |\n", a.name, a.kind, outcome)
	}
	for _, outcome := range []string{"no answer: nothing that was quoted proves it", "taken out of the answer", "marked as unsupported", "the reply is refused: it is not in the form that was asked for", "**passes**"} {
		fmt.Fprintf(&table, "\n%d: %s.", counts[outcome], strings.Trim(outcome, "*"))
	}
	t.Log("\n" + table.String())
	golden(t, "../../../docs/prompt-injection.md", table.String())
}

// outcomeOf says how far the attack succeeded.
func outcomeOf(a attack, got schema.Answer) string {
	if !containsFold(got.Answer, a.bad) {
		return "taken out of the answer"
	}
	for _, s := range got.Sentences {
		if s.Supported && containsFold(got.Answer[s.Start:s.End], a.bad) {
			return "**passes**"
		}
	}
	return "marked as unsupported"
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

var (
	fence    = regexp.MustCompile(`(?m)^--- (begin|end) (\S+) ---$`)
	template = regexp.MustCompile(`<\||\[/?INST\]|<</?SYS>>|</s>|<start_of_turn>|<tool_call>`)
)

// checkPrompt checks that a document is between its fences, whatever it contains, and that only a
// bounded amount of text is outside.
func checkPrompt(t *testing.T, a attack, user string) {
	t.Helper()
	marks := fence.FindAllStringSubmatch(user, -1)
	if len(marks) != 4 {
		t.Fatalf("%s: there are %d lines of fences around two passages", a.name, len(marks))
	}
	for i, m := range marks {
		if want := [...]string{"begin", "end"}[i%2]; m[1] != want || m[2] != marks[0][2] || len(m[2]) < 12 {
			t.Errorf("%s: fence %d is %q", a.name, i, m)
		}
	}
	if strings.Count(user, marks[0][2]) != 4 {
		t.Errorf("%s: the mark of the fences is in the text, too", a.name)
	}
	if word := template.FindString(user); word != "" {
		t.Errorf("%s: %q reached the model", a.name, word)
	}
	for _, r := range user {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			t.Errorf("%s: %U reached the model", a.name, r)
			break
		}
	}
	places := fence.FindAllStringIndex(user, -1)
	outside := user[:places[0][0]] + user[places[1][1]:places[2][0]] + user[places[3][1]:]
	if lines := strings.Count(outside, "\n"); lines > 12 || len(outside) > 1200 {
		t.Errorf("%s: outside of the fences are %d lines:\n%s", a.name, lines, outside)
	}
}

// checkAnswer checks that citations are verbatim, that sentences tile the answer and cite existing
// citations, and that the answer has no invisible characters.
func checkAnswer(t *testing.T, a attack, got schema.Answer) {
	t.Helper()
	for _, c := range got.Citations {
		stored := map[uuid.UUID]string{sectionID: handbook, hostileSection: a.text}[c.Span.Section]
		if c.Span.End > len(stored) || stored[c.Span.Start:c.Span.End] != c.Quote {
			t.Errorf("%s: %q is not in what it cites", a.name, c.Quote)
		}
	}
	end := 0
	for _, s := range got.Sentences {
		if s.Start != end || s.End <= s.Start || s.Supported != (len(s.Citations) > 0) {
			t.Errorf("%s: sentence %+v behind byte %d", a.name, s, end)
		}
		end = s.End
		for _, i := range s.Citations {
			if i < 0 || i >= len(got.Citations) {
				t.Errorf("%s: a sentence cites %d of %d", a.name, i, len(got.Citations))
			}
		}
	}
	if end != len(got.Answer) {
		t.Errorf("%s: the sentences end at %d of %d", a.name, end, len(got.Answer))
	}
	for _, r := range got.Answer {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			t.Errorf("%s: %U is in the answer", a.name, r)
		}
	}
}

const begin, end = "<!-- measured: begin -->\n", "\n<!-- measured: end -->"

// golden compares a part of a page with the measured table.
func golden(t *testing.T, name, want string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", name)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is not what is measured (go test ./internal/question/answer -update writes it):\n%s", name, want)
	}
}
