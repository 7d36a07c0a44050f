package modelclient_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// requests records the forms of the requests that a server received.
type requests struct {
	forms  []string
	before atomic.Bool // it acts as an older server, which reads and writes JSON only
}

// serveEncode answers encode as an older or a current server does.
func serveEncode(t *testing.T, nc *nats.Conn) *requests {
	t.Helper()
	a := &requests{}
	if _, err := nc.Subscribe(wire.ModelSubject(wire.OpEncode), func(msg *nats.Msg) {
		form := "JSON"
		if wire.IsFrame(msg.Data) {
			form = "frame"
		}
		a.forms = append(a.forms, form)
		answer, write, read := &nats.Msg{}, wire.EncodeFrame, wire.Read
		if a.before.Load() {
			write, read = wire.Encode, json.Unmarshal
		} else if msg.Header.Get(wire.HeaderFrames) != "" {
			answer.Header = nats.Header{wire.HeaderFrames: {wire.FrameVersion}}
		} else {
			write = wire.Encode
		}
		var request wire.EncodeRequest
		reply := wire.EncodeReply{Envelope: wire.Header(), Space: "s"}
		if err := read(msg.Data, &request); err != nil {
			reply.Error = schema.ToRemote(schema.Invalid("body", "%v", err))
		}
		reply.Vectors = wire.Vectors{Dimension: 1, Data: make([]float32, len(request.Texts))}
		var err error
		if answer.Data, err = write(reply); err == nil {
			err = msg.RespondMsg(answer)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFramesAreSentToServersThatReadThem also checks that an older server, together with others or
// in their place, costs one repeated request, after which requests are in JSON.
func TestFramesAreSentToServersThatReadThem(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	server := serveEncode(t, nc)
	client := modelclient.New(nc, modelclient.Options{})
	for _, step := range []struct {
		before bool
		forms  []string // of the requests that one call sends
	}{
		{false, []string{"JSON"}}, // no reply yet
		{false, []string{"frame"}},
		{true, []string{"frame", "JSON"}},
		{true, []string{"JSON"}},
		{false, []string{"JSON"}}, // there may be other older servers
	} {
		server.before.Store(step.before)
		server.forms = nil
		vectors, _, err := client.Encode(t.Context(), wire.LaneInteractive, []string{"a", "b"})
		if err != nil || vectors.Len() != 2 || !slices.Equal(server.forms, step.forms) {
			t.Errorf("a server of before: %v; %d vectors, %v, after %v, want %v", step.before, vectors.Len(), err, server.forms, step.forms)
		}
	}
}

// TestOlderServersGetJSON checks that older servers get JSON in every request.
func TestOlderServersGetJSON(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	server := serveEncode(t, nc)
	server.before.Store(true)
	client := modelclient.New(nc, modelclient.Options{})
	for range 3 {
		if _, _, err := client.Encode(t.Context(), wire.LaneInteractive, []string{"a"}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(server.forms, []string{"JSON", "JSON", "JSON"}) {
		t.Errorf("it got %v", server.forms)
	}
}

// TestDocumentsWithoutSegmentEncode checks that the result is nil for documents that no server can
// segment and encode in one request, and that a request whose reply is too large is sent in halves.
func TestDocumentsWithoutSegmentEncode(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	operations := []wire.ModelOp{wire.OpEncode}
	serveModel(t, nc, wire.OpInfo, func([]byte) (any, error) {
		return wire.ModelInfo{Envelope: wire.Header(), Space: "s", Dimension: 1, Operations: operations}, nil
	})
	document := func(n int) wire.SegmentEncodeDocument {
		return wire.SegmentEncodeDocument{Sections: []wire.SegmentEncodeSection{{Text: strings.Repeat("a", n), Sentences: []int{n}}}}
	}
	documents := []wire.SegmentEncodeDocument{document(3), document(600 << 10), document(4), document(5)}
	by := schema.Segmentation{By: schema.BySegmenter}
	made := func(client *modelclient.Client, by schema.Segmentation) string {
		t.Helper()
		got, err := client.SegmentEncode(t.Context(), wire.LaneBulk, by, documents, 1)
		if err != nil || len(got) != len(documents) {
			t.Fatalf("%v, %v", got, err)
		}
		out := ""
		for _, m := range got {
			switch {
			case m == nil:
				out += "-"
			default:
				out += string(rune('0' + m.Passages[0][0]))
			}
		}
		return out
	}
	fresh := func() *modelclient.Client { return modelclient.New(nc, modelclient.Options{}) }
	if got := made(fresh(), by); got != "----" {
		t.Errorf("by servers without the operation: %s", got)
	}
	operations = append(operations, wire.OpSegmentEncode)
	lonely := fresh()
	if got := made(lonely, by); got != "----" {
		t.Errorf("by servers that are gone: %s", got)
	}

	var requests atomic.Int64
	refuse := schema.CodeTooLarge
	if _, err := nc.Subscribe(wire.ModelSubject(wire.OpSegmentEncode), func(msg *nats.Msg) {
		requests.Add(1)
		r, err := wire.Decode[wire.SegmentEncodeRequest](msg.Data)
		if err != nil || !wire.IsFrame(msg.Data) {
			t.Errorf("it got %.30q, %v", msg.Data, err)
		}
		reply := wire.SegmentEncodeReply{Envelope: wire.Header(), Space: "s", Vectors: wire.Vectors{Dimension: 1, Data: make([]float32, len(r.Texts))}}
		if len(r.Titles) > 1 || refuse == schema.CodeInvalid {
			reply = wire.SegmentEncodeReply{Envelope: wire.Header(), Error: &schema.RemoteError{Code: refuse}}
		}
		for _, text := range r.Texts {
			reply.Passages, reply.Tokens = append(reply.Passages, []int{len(text)}), append(reply.Tokens, []int{1})
		}
		data, err := wire.EncodeFrame(reply)
		if err == nil {
			err = msg.RespondMsg(&nats.Msg{Data: data, Header: nats.Header{wire.HeaderFrames: {wire.FrameVersion}}})
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := made(lonely, by); got != "----" || requests.Load() != 0 {
		t.Errorf("by who found none a moment ago: %s after %d requests", got, requests.Load())
	}
	if got := made(fresh(), by); got != "3-45" || requests.Load() != 5 {
		t.Errorf("in halves: %s after %d requests", got, requests.Load())
	}
	requests.Store(0)
	if got := made(fresh(), schema.Segmentation{By: schema.BySimilarity}); got != "----" || requests.Load() != 0 {
		t.Errorf("by similarity: %s after %d requests", got, requests.Load())
	}
	refuse = schema.CodeInvalid
	if got := made(fresh(), by); got != "----" {
		t.Errorf("by a server that refuses: %s", got)
	}
}

// TestInvalidRepliesAreErrors checks that replies that do not match the request are
// errors.
func TestInvalidRepliesAreErrors(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	serveModel(t, nc, wire.OpInfo, func([]byte) (any, error) {
		return wire.ModelInfo{Envelope: wire.Header(), Space: "s", Dimension: 1, Operations: []wire.ModelOp{wire.OpSegmentEncode}}, nil
	})
	var reply wire.SegmentEncodeReply
	if _, err := nc.Subscribe(wire.ModelSubject(wire.OpSegmentEncode), func(msg *nats.Msg) {
		data, err := wire.EncodeFrame(reply)
		if err == nil {
			err = msg.RespondMsg(&nats.Msg{Data: data, Header: nats.Header{wire.HeaderFrames: {wire.FrameVersion}}})
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	good := wire.SegmentEncodeReply{Envelope: wire.Header(), Passages: [][]int{{1, 2}}, Tokens: [][]int{{1, 1}}, Vectors: wire.Vectors{Dimension: 1, Data: []float32{1, 1}},
		Links: [][][]wire.PassageLink{{{{To: 1, Weight: 1}}, {}}}}
	client := modelclient.New(nc, modelclient.Options{})
	call := func() error {
		_, err := client.SegmentEncode(t.Context(), wire.LaneBulk, schema.Segmentation{By: schema.BySegmenter},
			[]wire.SegmentEncodeDocument{{Sections: []wire.SegmentEncodeSection{{Text: "abc", Sentences: []int{1, 2}}}}}, 1)
		return err
	}
	reply = good
	if err := call(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(){
		"no passages":         func() { reply.Passages = nil },
		"a gap":               func() { reply.Passages = [][]int{{1, 1}} },
		"an empty passage":    func() { reply.Passages = [][]int{{3, 0}} },
		"tokens of one":       func() { reply.Tokens = [][]int{{1}} },
		"too few vectors":     func() { reply.Vectors.Data = []float32{1} },
		"too many vectors":    func() { reply.Vectors.Data = []float32{1, 1, 1} },
		"links of another":    func() { reply.Links = append(slices.Clone(reply.Links), nil) },
		"links of one":        func() { reply.Links = [][][]wire.PassageLink{{{}}} },
		"a link out of reach": func() { reply.Links = [][][]wire.PassageLink{{{{To: 2, Weight: 1}}, {}}} },
	} {
		reply = good
		change()
		if err := call(); err == nil || !strings.Contains(err.Error(), "the model server gave") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
