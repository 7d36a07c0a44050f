package inference

// This file tests fuse and detect against the goldens of their tiny graphs, and with requests that
// can't be answered.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func nanValue() float32 { return float32(math.NaN()) }

func TestGoldenFusion(t *testing.T) {
	model := openFull(t)
	if model.fuser.heads != 4 {
		t.Errorf("the graph has %d layers x heads", model.fuser.heads)
	}
	if heads, err := model.fuser.countHeads(); err != nil || heads != model.fuser.heads {
		t.Errorf("counted %d heads by a run, %v", heads, err)
	}
	nc, _ := serving(t, model, ServerOptions{})
	client, g := modelclient.New(nc, modelclient.Options{}), inferencetest.ReadGoldens(t).Fuser
	for _, s := range g.Settings {
		scores, name, err := client.Fuse(t.Context(), wire.LaneInteractive, g.Question, g.Texts, s.Tokens, s.WithQuestion)
		if err != nil {
			t.Fatal(err)
		}
		if name != model.name() {
			t.Errorf("by %q", name)
		}
		near(t, fmt.Sprintf("%d tokens, with question %v", s.Tokens, s.WithQuestion), scores, s.Scores)
		if s.Tokens == 4 && !s.WithQuestion {
			// The paper's lr is the default, and texts without words have no effect.
			texts := append([]string{"", "\u200b"}, g.Texts...)
			scores, _, err := client.Fuse(t.Context(), wire.LaneBulk, g.Question, texts, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "among empty texts", scores, append([]float32{lowestScore, lowestScore}, s.Scores...))
		}
	}
	scores, _, err := client.Fuse(t.Context(), wire.LaneBulk, g.Question, []string{"", " "}, 0, false)
	if err != nil || !slices.Equal(scores, []float32{lowestScore, lowestScore}) {
		t.Errorf("nothing but empty texts: %v, %v", scores, err)
	}
}

func TestMeanOfHighest(t *testing.T) {
	for _, c := range []struct {
		values []float32
		n      int
		want   float64
	}{
		{[]float32{1, -4, 3, 2}, 2, 2.5}, {[]float32{1, -4}, 4, -1.5}, {[]float32{-7}, 1, -7}, {[]float32{2, 2, 2}, 2, 2},
	} {
		if got := meanOfHighest(slices.Clone(c.values), c.n); got != c.want {
			t.Errorf("%d of %v: got %v, want %v", c.n, c.values, got, c.want)
		}
	}
}

func TestGoldenDetection(t *testing.T) {
	model := openFull(t)
	nc, _ := serving(t, model, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	var contexts [][][2]float32
	var want []float32
	for _, g := range inferencetest.ReadGoldens(t).Detector {
		contexts, want = append(contexts, g.Pairs), append(want, g.Enough)
	}
	got, threshold, name, err := client.Detect(t.Context(), wire.LaneInteractive, contexts)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "together", got, want)
	if threshold != 0.6 || name != model.name() {
		t.Errorf("threshold %v of %q", threshold, name)
	}
	// In several messages, in order.
	many, all := make([][][2]float32, 0, 5000), make([]float32, 0, 5000)
	for i := range 5000 {
		many, all = append(many, contexts[i%len(contexts)]), append(all, want[i%len(want)])
	}
	if got, _, _, err = client.Detect(t.Context(), wire.LaneBulk, many); err != nil {
		t.Fatal(err)
	}
	near(t, "many", got, all)
}

func TestBadFuseAndDetectRequestsAreNamed(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	eleven := `["a"` + strings.Repeat(`,"a"`, 10) + `]`
	for _, c := range []struct {
		op                wire.ModelOp
		name, data, field string
	}{
		{wire.OpFuse, "no JSON", `{"v":1,`, ""},
		{wire.OpFuse, "unknown lane", `{"v":1,"lane":"x","question":"q","texts":["a"]}`, "lane"},
		{wire.OpFuse, "no question", `{"v":1,"lane":"bulk","texts":["a"]}`, "question"},
		{wire.OpFuse, "negative tokens", `{"v":1,"lane":"bulk","question":"q","texts":["a"],"tokens":-1}`, "tokens"},
		{wire.OpFuse, "too many texts", `{"v":1,"lane":"bulk","question":"q","texts":` + eleven + `}`, "texts"},
		{wire.OpDetect, "no JSON", `{"v":1,`, ""},
		{wire.OpDetect, "unknown lane", `{"v":1,"contexts":[[[1,2]]]}`, "lane"},
		{wire.OpDetect, "too many texts", `{"v":1,"lane":"bulk","contexts":[[[1,2]` + strings.Repeat(`,[1,2]`, 10) + `]]}`, "contexts"},
	} {
		msg, err := nc.Request(wire.ModelSubject(c.op), []byte(c.data), waittest.Left(t))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		reply, err := decode[wire.FuseReply](msg.Data)
		if err != nil || reply.Error == nil || reply.Error.Code != schema.CodeInvalid || reply.Error.Field != c.field {
			t.Errorf("%s, %s: got %+v, %v; want field %q", c.op, c.name, reply.Error, err, c.field)
		}
	}
	client := modelclient.New(nc, modelclient.Options{})
	var named *schema.FieldError
	_, _, err := client.Fuse(t.Context(), wire.LaneInteractive, "what?", []string{strings.Repeat("a", 400<<10), strings.Repeat("b", 400<<10)}, 0, false)
	if !errors.As(err, &named) || named.Field != "texts" {
		t.Errorf("texts that don't fit a message: got %v", err)
	}
}
