package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	id1 = uuid.MustParse("019a0000-0000-7000-8000-000000000001")
	id2 = uuid.MustParse("019a0000-0000-7000-8000-000000000002")
	at  = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
)

// samples has a complete message of each kind. Their golden files define the format: any change to
// a file other than a new field breaks readers.
var samples = []any{
	wire.IngestMessage{Envelope: wire.Header(), Tenant: id1, Collection: id2, Document: id1, Version: id2, Attempt: 3, Bytes: 12, Trace: "00-a-b-01"},
	wire.Event{Envelope: wire.Header(), ID: id1, Kind: "version.failed", Tenant: id1, Collection: id2, Document: id1, Version: id2, ExternalID: "a/b.md",
		State: schema.StateFailed, Reason: &schema.Reason{Code: schema.ReasonEmpty, Message: "no text"}, At: at},
	wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Deadline: at, Texts: []string{"a", "b"}},
	wire.EncodeReply{Envelope: wire.Header(), Space: "s", Vectors: wire.Vectors{Dimension: 2, Data: []float32{1, 0, 0.5, -0.5}}, Tokens: []int{1, 2}, Truncated: 1},
	wire.SegmentRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Deadline: at, Runs: [][]string{{"a", "b"}}},
	wire.SegmentReply{Envelope: wire.Header(), Model: "m", Threshold: 0.5, Scores: [][]float32{{0.25}}},
	wire.SegmentEncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Deadline: at, By: schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, Apart: 2, MinTokens: 24, MaxTokens: 256},
		Keep: 10, Titles: []string{"T"}, Sections: []int{2}, Headings: []string{"H", ""}, Texts: []string{"a b", "c"}, Sentences: [][]int{{2, 1}, {1}}},
	wire.SegmentEncodeReply{Envelope: wire.Header(), Model: "m", Space: "s", Passages: [][]int{{2, 1}, {1}}, Tokens: [][]int{{1, 1}, {1}},
		Vectors: wire.Vectors{Dimension: 2, Data: []float32{1, 0, 0, 1, 0.5, -0.5}}, Links: [][][]wire.PassageLink{{{{To: 1, Weight: 0.5}}, {}, {}}}, Truncated: 1},
	wire.ModelInfoRequest{Envelope: wire.Header()},
	wire.ModelInfo{Envelope: wire.Header(), Pack: "p", Version: "1", SHA256: "00ff", Space: "s", Dimension: 2, MaxTokens: 512, Provider: "cpu",
		Operations: []wire.ModelOp{wire.OpEncode, wire.OpScore}, Calibrated: map[string]float64{"has_answer": 1.5}, Limits: map[wire.ModelOp]int{wire.OpLink: 256}, NoRerankSpans: true},
	wire.StatusRequest{Envelope: wire.Header()},
	wire.StatusReply{Envelope: wire.Header(), ServiceState: schema.ServiceState{ID: id1, Service: wire.ModelService, Program: "gpu-segmenter", Host: "h", PID: 7, Since: at,
		Places: 2, Running: 1, Waiting: 3, Served: 9, Refused: 1, Millis: 12.5, Model: &schema.ModelState{Pack: "p", Provider: "cpu", HeldBytes: 10, HeldSequences: 2, MaxSequences: 32,
			Graphs: []schema.GraphState{{Graph: "encoder", Interactive: 1, Bulk: 2, Batches: 3, Items: 40, Tokens: 500, Padding: 5, Millis: 9.5}}}}},
	wire.ScoreRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Deadline: at, Question: "q", Texts: []string{"a b"}, Answers: true, Graph: wire.GraphReranker, Features: true},
	wire.ScoreReply{Envelope: wire.Header(), Model: "m", Scores: []wire.PairScore{{Relevance: 1, HasAnswer: 0.5, LLMPrefer: -0.5,
		Answer: &wire.AnswerSpan{Start: 2, End: 3, Score: 4}}}, Truncated: 1, Graph: wire.GraphReranker, Features: &wire.Vectors{Dimension: 2, Data: []float32{1, 0.5}}, FeaturesOf: "f"},
	wire.LinkRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Deadline: at, Space: "s", Windows: []wire.Vectors{{Dimension: 2, Data: []float32{1, 0, 0, 1}}}, Keep: 1},
	wire.LinkReply{Envelope: wire.Header(), Model: "m", Links: [][][]wire.PassageLink{{{{To: 1, Weight: 0.5}}, {}}}},
	wire.FuseRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Deadline: at, Question: "q", Texts: []string{"a"}, Tokens: 4, WithQuestion: true},
	wire.FuseReply{Envelope: wire.Header(), Model: "m", Scores: []float32{0.5}, Truncated: 1},
	wire.DetectRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Deadline: at, Contexts: [][][2]float32{{{1, 0.5}}}},
	wire.DetectReply{Envelope: wire.Header(), Model: "m", Threshold: 0.5, Enough: []float32{0.75}},
	wire.SearchRequest{Envelope: wire.Header(), SearchQuery: query(), Deadline: at},
	wire.SearchReply{
		Envelope: wire.Header(),
		SearchResult: schema.SearchResult{Plan: "naive", Candidates: []schema.Candidate{{Unit: schema.UnitPassage, Cluster: id2, Passage: id1, Document: id2, ExternalID: "a", Title: "A",
			HeadingPath: []string{"H"}, Page: 2, Location: "page 2", Spans: []schema.Span{{Version: id1, Section: id2, Start: 0, End: 4}}, Text: "text", Tokens: 1,
			Score: 0.5, Scores: map[string]float64{"dense.passage": 0.5}, Origin: "dense"}}, Context: []int{0}, Documents: []schema.RankedDocument{{Document: "a", Score: 0.5}}, Trace: []schema.StageReport{{Stage: "dense", Unit: schema.UnitPassage, In: 9, Out: 1, Millis: 1.5, Why: "exact",
			Kept:       []schema.Judged{{Document: "a", Version: id1, Location: "page 2", Score: 0.5, Scores: map[string]float64{"dense.passage": 0.5}}},
			Dropped:    []schema.Judged{{Cluster: id2, Score: 0.25, Why: "below rank 1"}},
			Statistics: map[string]float64{"lexical.passage.units": 9}}}},
	},
	wire.AskRequest{Envelope: wire.Header(), SearchQuery: query(), Question: id2, Deadline: at, Stream: "_INBOX.a"},
	wire.AskReply{Envelope: wire.Header(), Answer: &schema.Answer{Question: "q", Answer: "a", Supported: true, Plan: "naive", Choice: 1, Rounds: 2, Uncited: true,
		Sentences: []schema.Sentence{{End: 1, Citations: []int{0}, Supported: true}},
		Citations: []schema.Citation{{Document: "a", DocumentID: id2, Title: "A", Location: "page 2", Quote: "text", Span: schema.Span{Version: id1, Section: id2, End: 4},
			Answer: schema.ShortAnswer{Text: "ex", Start: 1, End: 3, Confidence: 0.5}}},
		Trace: []schema.StageReport{}, Usage: schema.Usage{Provider: "extractive", InputTokens: 5, OutputTokens: 1, Millis: 2}}},
	wire.QuestionStage{Envelope: wire.Header(), Question: id2, Stage: "generate", Round: 1, Candidates: 8},
	wire.QuestionText{Envelope: wire.Header(), Question: id2, Text: "a"},
	wire.QuestionMessage{Envelope: wire.Header(), Tenant: id1, Question: id2, Attempt: 1, Trace: "00-a-b-01"},
	wire.LLMRequest{Envelope: wire.Header(), Tenant: id1, Step: wire.Step{Question: id2, Round: 1, Step: "answer"}, Task: wire.TaskAnswer, Question: "q",
		Passages: []wire.LLMPassage{{Title: "A", Location: "page 2", Headings: []string{"H"}, Text: "text"}}, Provider: "openai", Versions: []uuid.UUID{id1}, Deadline: at, Choices: []string{"c", "d"}, Answer: "a", Prompt: "explain", Stream: "_INBOX.a"},
	wire.RemoteEncodeRequest{Envelope: wire.Header(), Tenant: id1, Lane: wire.LaneBulk, Deadline: at, By: wire.RemoteModel{Provider: "openai", Model: "m", MaxTokens: 512, Batch: 96},
		Dimension: 2, Shorten: true, Texts: []string{"a", "b"}},
	wire.RemoteEncodeReply{Envelope: wire.Header(), Vectors: wire.Vectors{Dimension: 2, Data: []float32{1, 0, 0, 1}}, Truncated: 1,
		Usage: schema.Usage{Provider: "openai", Model: "m", InputTokens: 2, Cost: 0.25}},
	wire.RemoteRerankRequest{Envelope: wire.Header(), Tenant: id1, Lane: wire.LaneInteractive, Deadline: at, By: wire.RemoteModel{Provider: "cohere", Model: "m", MaxTokens: 512, Batch: 96},
		Question: "q", Texts: []string{"a", "b"}},
	wire.RemoteRerankReply{Envelope: wire.Header(), Scores: []float32{0.5, -1}, Truncated: 1, Usage: schema.Usage{Provider: "cohere", Model: "m", InputTokens: 2, Cost: 0.25}},
	wire.LLMDelta{Envelope: wire.Header(), Text: "a", Restart: true},
	wire.LLMReply{Envelope: wire.Header(), Text: "a", Supported: true, Quotes: []wire.Quote{{Passage: 0, Start: 0, End: 4, Answer: wire.QuoteAnswer{Start: 1, End: 3, Confidence: 0.5}}},
		Sentences: []wire.ReplySentence{{Start: 0, End: 1, Quotes: []int{0}}}, Choice: 1,
		Feedback: &wire.Feedback{Score: 9, Adjust: -1}, Usage: schema.Usage{Provider: "openai", Model: "m", Cost: 0.25, Cached: true}},
}

func query() wire.SearchQuery {
	return wire.SearchQuery{
		Principal: schema.Principal{Tenant: id1, Key: id2, Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, Groups: []string{"g"}},
		Query:     schema.Query{Collection: id2, Text: "q", Plan: "naive", PlanText: "name: naive", Filter: schema.Filter{{Key: "k", Op: schema.OpEq, Values: []string{"v"}}}, Choices: []string{"c", "d"}, K: 5, Documents: 7, Explain: true},
	}
}

func TestFormatIsGolden(t *testing.T) {
	for _, m := range samples {
		name := strings.TrimPrefix(reflect.TypeOf(m).String(), "wire.")
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(m, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the format changed (go test ./schema/wire -update, after thought):\n%s", got)
			}
			back := reflect.New(reflect.TypeOf(m))
			if err := json.Unmarshal(want, back.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back.Elem().Interface(), m) {
				t.Errorf("read back as %+v", back.Elem())
			}
		})
	}
}

func TestDecodeDistinguishesVersionErrors(t *testing.T) {
	if _, err := wire.Decode[wire.IngestMessage]([]byte(`{"v":99}`)); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("a newer version gave %v", err)
	}
	if _, err := wire.Decode[wire.IngestMessage]([]byte(`{`)); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("nonsense gave %v", err)
	}
	if _, err := wire.Decode[wire.IngestMessage]([]byte(`{"v":1,"added_later":true}`)); err != nil {
		t.Errorf("a new field gave %v", err)
	}
}

func TestVectorsInAnyForm(t *testing.T) {
	want := wire.Vectors{Dimension: 2, Data: wire.Floats{1, 0, 0.5, -0.5}}
	written, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(written[len(`{"dimension":2,"data":`):len(written)-1], &text); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		string(written),
		`{ "data" : "` + text + `", "dimension" : 2 }`,
		`{"dimension":2,"data":"\u0041` + text[1:] + `"}`,
		`{"dimension":2,"data":"` + text + `","more":"x"}`,
	} {
		var got wire.Vectors
		if err := json.Unmarshal([]byte(form), &got); err != nil || got.Dimension != 2 || !slices.Equal(got.Data, want.Data) {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
}

func TestVectorsRefuseBrokenShapes(t *testing.T) {
	for _, text := range []string{`{"dimension":2,"data":"AAAA"}`, `{"dimension":0,"data":"AAAAAA=="}`, `{"dimension":2,"data":"AAAAAA=="}`, `{"dimension":-1,"data":""}`, `{"data":"!"}`} {
		var v wire.Vectors
		if err := json.Unmarshal([]byte(text), &v); err == nil {
			t.Errorf("%s was taken as %+v", text, v)
		}
	}
}

func TestBatchWorkflowIDIgnoresOrder(t *testing.T) {
	a := wire.BatchWorkflowID([]string{wire.IngestMessageID(id1, 1), wire.IngestMessageID(id2, 1)})
	b := wire.BatchWorkflowID([]string{wire.IngestMessageID(id2, 1), wire.IngestMessageID(id1, 1)})
	if a != b || a == wire.BatchWorkflowID([]string{wire.IngestMessageID(id1, 2), wire.IngestMessageID(id2, 1)}) {
		t.Errorf("ids %s, %s", a, b)
	}
}

func TestSubjectsRefuseWildcards(t *testing.T) {
	for _, bad := range []func(){
		func() { wire.EventSubject(id1, "a.*") }, func() { wire.EventSubject(id1, "") }, func() { wire.IngestSubject(uuid.Nil) },
		func() { wire.ModelSubject("fly") }, func() { wire.StreamSubject("", wire.PartText) }, func() { wire.StreamSubject("a.>", wire.PartText) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a bad subject was made")
				}
			}()
			bad()
		}()
	}
}

func TestGraphsThatScore(t *testing.T) {
	for graph, want := range map[string]wire.ModelOp{"": wire.OpScore, wire.GraphPair: wire.OpScore, wire.GraphReranker: wire.OpRerank} {
		if op, err := wire.ScoreOp(graph); op != want || err != nil {
			t.Errorf("%q: %s, %v", graph, op, err)
		}
	}
	var field *schema.FieldError
	if op, err := wire.ScoreOp("encoder"); op != "" || !errors.As(err, &field) || field.Field != "graph" || !strings.Contains(field.Problem, "encoder") {
		t.Errorf("another graph gave %q, %v", op, err)
	}
}

// TestModelOperationsAreDescribed: docs/models.md has a line for each operation, with the graph
// that it needs.
func TestModelOperationsAreDescribed(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range wire.ModelOperations() {
		at := slices.IndexFunc(strings.Split(string(docs), "\n"), func(line string) bool {
			cells := strings.Split(line, "|")
			return len(cells) == 6 && strings.Contains(cells[1], "`"+string(o.Name)+"`") &&
				(o.Graph == "" || strings.Contains(cells[2], "`"+o.Graph+"`"))
		})
		if at < 0 {
			t.Errorf("docs/models.md has no line for %s with its graph %q", o.Name, o.Graph)
		}
	}
}
