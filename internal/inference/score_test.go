package inference

// This file tests score: against the goldens of the tiny pair graph, over NATS, with spans in bytes
// of the texts.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestGoldenScores(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	client, g := modelclient.New(nc, modelclient.Options{}), inferencetest.ReadGoldens(t)
	t.Run("pair", func(t *testing.T) { goldenScores(t, model, client.Score, g.Pair) })
	t.Run("reranker", func(t *testing.T) { goldenScores(t, model, client.Rerank, g.Reranker) })
}

// scoring is one of the client's two methods that score texts.
type scoring func(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.PairScore, string, error)

func goldenScores(t *testing.T, model *Model, score scoring, g inferencetest.Scores) {
	var texts []string
	for _, c := range g.Texts {
		texts = append(texts, c.Text)
	}
	check := func(what string, i int, got wire.PairScore) {
		t.Helper()
		want := g.Texts[i]
		if len(want.IDs) == 0 {
			if !reflect.DeepEqual(got, wire.PairScore{Relevance: lowestScore, HasAnswer: lowestScore, LLMPrefer: lowestScore}) {
				t.Errorf("%s: %q got %+v", what, want.Text, got)
			}
			return
		}
		near(t, what+" "+want.Text, []float32{got.Relevance, got.HasAnswer, got.LLMPrefer}, want.Scores)
		if got.Answer == nil {
			t.Fatalf("%s: %q has no answer", what, want.Text)
		}
		near(t, what+" span of "+want.Text, []float32{got.Answer.Score}, []float32{want.Span})
		// The span covers exactly the words of the golden tokens.
		_, spans, _ := model.tokenizer.EncodeSpans(nil, nil, want.Text, 0)
		first, last := spans[want.First], spans[want.Last]
		before, after := want.Text[got.Answer.Start:first.Start], want.Text[last.End:got.Answer.End]
		if strings.ContainsAny(before+after, " ,.’–") || got.Answer.Start > 0 && !strings.HasSuffix(want.Text[:got.Answer.Start], " ") {
			t.Errorf("%s: answer %q of %q isn't its tokens %d to %d", what, want.Text[got.Answer.Start:got.Answer.End], want.Text, want.First, want.Last)
		}
	}
	all, name, err := score(t.Context(), wire.LaneInteractive, g.Question, texts, true)
	if err != nil {
		t.Fatal(err)
	}
	if name != model.name() || len(all) != len(texts) {
		t.Fatalf("%d scores by %q", len(all), name)
	}
	for i := range texts {
		check("together", i, all[i])
		alone, _, err := score(t.Context(), wire.LaneBulk, g.Question, texts[i:i+1], true)
		if err != nil {
			t.Fatal(err)
		}
		check("alone", i, alone[0])
	}
	plain, _, err := score(t.Context(), wire.LaneInteractive, g.Question, texts, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if plain[i].Answer != nil {
			t.Errorf("text %d has an answer that nobody asked for", i)
		}
		near(t, "without answers", []float32{plain[i].Relevance}, []float32{all[i].Relevance})
	}
}

// TestScoresOfManyTextsComeBackInOrder sends texts of all lengths, in several messages and many
// batches, from many callers.
func TestScoresOfManyTextsComeBackInOrder(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	random := rand.New(rand.NewPCG(1, 2))
	texts := longTexts(1500)
	for i := range texts {
		texts[i] = strings.ToValidUTF8(texts[i][:random.IntN(len(texts[i]))], "")
	}
	all, _, err := client.Score(t.Context(), wire.LaneBulk, "What is delivered with a pump?", texts, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(texts); i += 61 {
		one, _, err := client.Score(t.Context(), wire.LaneInteractive, "What is delivered with a pump?", texts[i:i+1], true)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprint("text ", i), []float32{all[i].Relevance, all[i].HasAnswer, all[i].LLMPrefer}, []float32{one[0].Relevance, one[0].HasAnswer, one[0].LLMPrefer})
	}
}

func TestAnswersNeverCutACharacter(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	texts := []string{
		"\xff\xfe", "a\u0301\u0301 e\u0301", "漢字かな交じり文", "İstanbul’da 5 €", "\u202e\u200b", strings.Repeat("中", 50000),
		strings.Repeat("e\u0301", 20000), strings.Repeat("a", 200000), "한국어 문장", "👩‍👩‍👧 family", "<b>&amp;</b>",
	}
	scores, _, err := client.Score(t.Context(), wire.LaneInteractive, "what?", texts, true)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for i, s := range scores {
		if s.Answer == nil {
			continue
		}
		answered++
		if s.Answer.Start >= s.Answer.End || s.Answer.End > len(texts[i]) || !utf8.ValidString(texts[i][s.Answer.Start:s.Answer.End]) {
			t.Errorf("text %d: answer %+v", i, s.Answer)
		}
		if end := s.Answer.End; end < len(texts[i]) && strings.HasPrefix(texts[i][end:], "\u0301") {
			t.Errorf("text %d: answer %+v parts a letter and its accent", i, s.Answer)
		}
	}
	if answered < 8 {
		t.Errorf("%d answers", answered)
	}
}

func TestBadScoreRequestsAreNamed(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	for _, c := range []struct {
		name, data, field string
		code              schema.Code
	}{
		{"no JSON", `{"v":1,`, "", schema.CodeInvalid},
		{"unknown version", `{"v":99,"lane":"bulk","question":"q","texts":["a"]}`, "v", schema.CodeInvalid},
		{"unknown lane", `{"v":1,"lane":"express","question":"q","texts":["a"]}`, "lane", schema.CodeInvalid},
		{"unknown graph", `{"v":1,"lane":"bulk","question":"q","texts":["a"],"graph":"encoder"}`, "graph", schema.CodeInvalid},
		{"no question", `{"v":1,"lane":"bulk","texts":["a"]}`, "question", schema.CodeInvalid},
		{"a question without words", `{"v":1,"lane":"bulk","question":"\u0000 ","texts":["a"]}`, "question", schema.CodeInvalid},
		{"too many texts", `{"v":1,"lane":"bulk","question":"q","texts":["a"` + strings.Repeat(`,"a"`, 6000) + `]}`, "", schema.CodeTooLarge},
	} {
		msg, err := nc.Request(wire.ModelSubject(wire.OpScore), []byte(c.data), waittest.Left(t))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		reply, err := decode[wire.ScoreReply](msg.Data)
		if err != nil || reply.Error == nil || reply.Error.Code != c.code || reply.Error.Field != c.field {
			t.Errorf("%s: got %+v, %v; want code %s of field %q", c.name, reply.Error, err, c.code, c.field)
		}
	}
}

func TestMissingGraphsNameTheRemedy(t *testing.T) {
	model := openFull(t, inferencetest.Without("pair", "reranker", "linker", "fuser", "detector"))
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(info.Operations, []wire.ModelOp{wire.OpEncode, wire.OpSegment, wire.OpSegmentEncode}) || info.Calibrated["has_answer"] != 0 || info.Limits[wire.OpFuse] != 0 {
		t.Errorf("info %+v", info)
	}
	for section, call := range map[string]func() error{
		"pair": func() error {
			_, _, err := client.Score(t.Context(), wire.LaneInteractive, "what?", []string{"a"}, false)
			return err
		},
		"reranker": func() error {
			_, _, err := client.Rerank(t.Context(), wire.LaneInteractive, "what?", []string{"a"}, false)
			return err
		},
		"linker": func() error {
			_, _, err := client.Link(t.Context(), wire.LaneBulk, info.Space, []wire.Vectors{{Dimension: info.Dimension, Data: make([]float32, 2*info.Dimension)}}, 1)
			return err
		},
		"fuser": func() error {
			_, _, err := client.Fuse(t.Context(), wire.LaneInteractive, "what?", []string{"a"}, 0, false)
			return err
		},
		"detector": func() error {
			_, _, _, err := client.Detect(t.Context(), wire.LaneInteractive, [][][2]float32{{{1, 2}}})
			return err
		},
	} {
		err := call()
		if !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), model.name()) || !strings.Contains(err.Error(), "section "+section) {
			t.Errorf("%s: got %v", section, err)
		}
	}
	// A request without this client gets an error too.
	reply := receive[wire.LinkReply](t, send(t, nc, wire.OpLink, wire.LinkRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Keep: 1}))
	if reply.Error == nil || reply.Error.Field != "SLUICE_MODEL_PACK" {
		t.Errorf("got %+v", reply.Error)
	}
}

func TestInfoListsOperations(t *testing.T) {
	nc, _ := serving(t, openFull(t, func(manifest string) string { return manifest + "calibrated: {gradient: 0.4}\n" }), ServerOptions{})
	info, err := modelclient.New(nc, modelclient.Options{}).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(info.Operations, []wire.ModelOp{wire.OpEncode, wire.OpSegment, wire.OpSegmentEncode, wire.OpScore, wire.OpRerank, wire.OpLink, wire.OpFuse, wire.OpDetect}) {
		t.Errorf("operations %v", info.Operations)
	}
	for name, want := range map[string]float64{"has_answer": -1.5, "has_answer_reranker": 0.25, "link": 0.25, "detect": 0.6, "gradient": 0.4} {
		if info.Calibrated[name] != want {
			t.Errorf("calibrated %s is %v, want %v", name, info.Calibrated[name], want)
		}
	}
	for op, want := range map[wire.ModelOp]int{wire.OpEncode: info.MaxTokens, wire.OpScore: 384, wire.OpRerank: 192, wire.OpLink: 8, wire.OpFuse: 10, wire.OpDetect: 10} {
		if info.Limits[op] != want {
			t.Errorf("%s takes %d, want %d", op, info.Limits[op], want)
		}
	}
}

// TestNaNFailsItsRequestOnly: other requests in its batch are answered.
func TestNaNFailsItsRequestOnly(t *testing.T) {
	model := openFull(t)
	// Both requests are in one batch: the second fills it.
	nc, _ := serving(t, model, ServerOptions{LinkPassages: 6, Wait: time.Hour})
	request := func(value float32) wire.LinkRequest {
		vectors := wire.Vectors{Dimension: model.dimension(), Data: make([]float32, 3*model.dimension())}
		for i := range vectors.Data {
			vectors.Data[i] = value * float32(1-i%3)
		}
		return wire.LinkRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Space: model.manifest.Space, Windows: []wire.Vectors{vectors}, Keep: 1}
	}
	good, bad := send(t, nc, wire.OpLink, request(0.1)), send(t, nc, wire.OpLink, request(3e38))
	if reply := receive[wire.LinkReply](t, bad); reply.Error == nil || reply.Error.Code != schema.CodeInternal || !strings.Contains(reply.Error.Message, "no finite number") {
		t.Errorf("overflowing vectors got %+v", reply)
	}
	if reply := receive[wire.LinkReply](t, good); reply.Error != nil || len(reply.Links) != 1 || len(reply.Links[0]) != 3 {
		t.Errorf("its neighbour got %+v", reply)
	}
}
