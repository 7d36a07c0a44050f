package modelclient_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestPackMismatchIsNotRetried checks that vectors of two models are not put into one
// result, and that the client does not retry: no retry would make the models agree.
func TestPackMismatchIsNotRetried(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var served atomic.Int64
	serveModel(t, nc, wire.OpEncode, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.EncodeRequest](data)
		return wire.EncodeReply{Envelope: wire.Header(), Space: []string{"one", "two"}[served.Add(1)%2],
			Vectors: wire.Vectors{Dimension: 1, Data: make([]float32, len(request.Texts))}}, err
	})
	_, _, err = modelclient.New(nc, modelclient.Options{}).Encode(t.Context(), wire.LaneBulk, make([]string, 501))
	if !errors.Is(err, modelclient.ErrPackMismatch) || errors.Is(err, schema.ErrConflict) || served.Load() != 2 {
		t.Errorf("got %v after %d requests", err, served.Load())
	}
}

// TestResultsOfTwoModelsAreNotMixed checks every operation whose parts went to servers with
// different packs.
func TestResultsOfTwoModelsAreNotMixed(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var served atomic.Int64
	model := func() string { return []string{"one/1", "two/1"}[served.Add(1)%2] }
	serve := func(op wire.ModelOp, reply func(data []byte) (any, error)) {
		t.Helper()
		serveModel(t, nc, op, reply)
	}
	serve(wire.OpInfo, func([]byte) (any, error) {
		return wire.ModelInfo{Envelope: wire.Header(), Space: "s", Dimension: 1, Limits: map[wire.ModelOp]int{wire.OpLink: 10000}}, nil
	})
	serve(wire.OpScore, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.ScoreRequest](data)
		return wire.ScoreReply{Envelope: wire.Header(), Model: model(), Scores: make([]wire.PairScore, len(request.Texts)), Graph: request.Graph}, err
	})
	serve(wire.OpDetect, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.DetectRequest](data)
		return wire.DetectReply{Envelope: wire.Header(), Model: model(), Enough: make([]float32, len(request.Contexts))}, err
	})
	serve(wire.OpLink, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.LinkRequest](data)
		reply := wire.LinkReply{Envelope: wire.Header(), Model: model()}
		for _, w := range request.Windows {
			reply.Links = append(reply.Links, make([][]wire.PassageLink, w.Len()))
		}
		return reply, err
	})
	client := modelclient.New(nc, modelclient.Options{})
	for name, call := range map[string]func() error{
		"score": func() error {
			_, _, err := client.Score(t.Context(), wire.LaneBulk, "what?", make([]string, 2001), false)
			return err
		},
		"rerank": func() error {
			_, _, err := client.Rerank(t.Context(), wire.LaneBulk, "what?", make([]string, 33), false)
			return err
		},
		"detect": func() error {
			_, _, _, err := client.Detect(t.Context(), wire.LaneBulk, make([][][2]float32, 1001))
			return err
		},
		"link": func() error {
			document := wire.Vectors{Dimension: 1, Data: make([]float32, 10000)}
			_, _, err := client.Link(t.Context(), wire.LaneBulk, "s", []wire.Vectors{document, document, document}, 1)
			return err
		},
	} {
		served.Store(0)
		if err := call(); !errors.Is(err, modelclient.ErrPackMismatch) || served.Load() < 2 {
			t.Errorf("%s: got %v after %d requests", name, err, served.Load())
		}
	}
}

// TestTheRerankerGetsFewTextsAtATime checks that the texts keep their order and that every part
// names the reranker.
func TestTheRerankerGetsFewTextsAtATime(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var parts, most atomic.Int64
	serveModel(t, nc, wire.OpScore, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.ScoreRequest](data)
		if request.Graph != wire.GraphReranker || request.Lane != wire.LaneInteractive || request.Deadline.IsZero() || !request.Answers || request.Question != "what?" {
			t.Errorf("asked %+v", request)
		}
		parts.Add(1)
		most.Store(max(most.Load(), int64(len(request.Texts))))
		reply := wire.ScoreReply{Envelope: wire.Header(), Model: "one/1", Graph: request.Graph}
		for _, text := range request.Texts {
			reply.Scores = append(reply.Scores, wire.PairScore{Relevance: float32(len(text))})
		}
		return reply, err
	})
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = strings.Repeat("a", i)
	}
	scores, model, err := modelclient.New(nc, modelclient.Options{}).Rerank(t.Context(), wire.LaneInteractive, "what?", texts, true)
	if err != nil || model != "one/1" || len(scores) != len(texts) || parts.Load() != 4 || most.Load() != 32 {
		t.Fatalf("%d scores in %d parts of up to %d texts by %q, %v", len(scores), parts.Load(), most.Load(), model, err)
	}
	for i, s := range scores {
		if s.Relevance != float32(i) {
			t.Errorf("text %d has the score %g", i, s.Relevance)
		}
	}
}

// TestServersWithoutRerankerAreDetected: such a server would answer with its pair model, whose
// scale is another.
func TestServersWithoutRerankerAreDetected(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	serveModel(t, nc, wire.OpScore, func(data []byte) (any, error) {
		request, err := wire.Decode[wire.ScoreRequest](data)
		return wire.ScoreReply{Envelope: wire.Header(), Model: "old/1", Scores: make([]wire.PairScore, len(request.Texts))}, err
	})
	client := modelclient.New(nc, modelclient.Options{})
	if _, _, err := client.Rerank(t.Context(), wire.LaneBulk, "what?", []string{"a"}, false); !errors.Is(err, modelclient.ErrPackMismatch) || !strings.Contains(err.Error(), `"pair" where "reranker"`) {
		t.Errorf("got %v", err)
	}
	if _, _, err := client.Score(t.Context(), wire.LaneBulk, "what?", []string{"a"}, false); err != nil {
		t.Errorf("its pair model: %v", err)
	}
}

// serveModel answers an operation on a connection.
func serveModel(t *testing.T, nc *nats.Conn, op wire.ModelOp, reply func(data []byte) (any, error)) {
	t.Helper()
	if _, err := nc.Subscribe(wire.ModelSubject(op), func(msg *nats.Msg) {
		r, err := reply(msg.Data)
		if err != nil {
			t.Error(err)
			return
		}
		data, err := json.Marshal(r)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestLinkReusesTheServersInfo checks that Link does not ask for the server's info again right
// after another request for it, unless the vectors are of another space than the info's.
func TestLinkReusesTheServersInfo(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var requests atomic.Int64
	serveModel(t, nc, wire.OpInfo, func([]byte) (any, error) {
		space := []string{"old", "new"}[min(requests.Add(1)-1, 1)]
		return wire.ModelInfo{Envelope: wire.Header(), Space: space, Dimension: 1, Limits: map[wire.ModelOp]int{wire.OpLink: 8}}, nil
	})
	serveModel(t, nc, wire.OpLink, func([]byte) (any, error) {
		return wire.LinkReply{Envelope: wire.Header(), Links: [][][]wire.PassageLink{{{}, {}}}}, nil
	})
	client := modelclient.New(nc, modelclient.Options{})
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	documents := []wire.Vectors{{Dimension: 1, Data: make([]float32, 2)}}
	for _, step := range []struct {
		space    string
		requests int64
	}{{"old", 1}, {"old", 1}, {"new", 2}, {"new", 2}} {
		if _, _, err := client.Link(t.Context(), wire.LaneBulk, step.space, documents, 1); err != nil || requests.Load() != step.requests {
			t.Errorf("in space %s: %v after asking %d times, want %d", step.space, err, requests.Load(), step.requests)
		}
	}
}

// TestRequestsNameTheirTenant checks the headers of requests: the tenant, and whether the request
// yields, as the function says at the time of sending.
func TestRequestsNameTheirTenant(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	headers := make(chan nats.Header, 1)
	if _, err := nc.Subscribe(wire.ModelSubject(wire.OpInfo), func(msg *nats.Msg) {
		headers <- msg.Header
		if data, err := wire.Encode(wire.ModelInfo{Envelope: wire.Header()}); err == nil {
			_ = msg.Respond(data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	client, tenant, yields := modelclient.New(nc, modelclient.Options{}), schema.NewID(), false
	for name, c := range map[string]struct {
		client                 *modelclient.Client
		yields                 bool
		wantTenant, wantYields string
	}{
		"of nobody":        {client, true, "", ""},
		"of a tenant":      {client.For(tenant, nil), true, tenant.String(), ""},
		"that goes first":  {client.For(tenant, func() bool { return yields }), false, tenant.String(), ""},
		"that lets others": {client.For(tenant, func() bool { return yields }), true, tenant.String(), "yes"},
	} {
		yields = c.yields
		if _, err := c.client.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-headers
		if got.Get(wire.HeaderTenant) != c.wantTenant || got.Get(wire.HeaderYields) != c.wantYields {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{}) }
