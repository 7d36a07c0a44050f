package inference

// This file compares segment_encode with the operations that it combines, and tests that requests
// that can't be answered report why.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// segmented returns the default segmentation, complete.
func segmented(t *testing.T) schema.Segmentation {
	t.Helper()
	by, err := schema.Segmentation{By: schema.BySegmenter}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// documentOf returns a document with sections of the given numbers of sentences.
func documentOf(title string, by schema.Segmentation, sentences ...int) wire.SegmentEncodeDocument {
	d := wire.SegmentEncodeDocument{Title: title}
	for i, n := range sentences {
		var b strings.Builder
		for j := range n {
			fmt.Fprintf(&b, "%s This is about clause %d of item %d, which nobody has read to its very end. ", topics[(i+j*j)%len(topics)], j, i)
		}
		s := wire.SegmentEncodeSection{Heading: fmt.Sprint("Chapter ", i), Text: b.String()}
		for _, r := range text.Units(s.Text, by) {
			s.Sentences = append(s.Sentences, r.End-r.Start)
		}
		d.Sections = append(d.Sections, s)
	}
	return d
}

// TestSegmentEncodeEqualsSeparateOperations: passages, vectors and links are those of segment,
// encode and link, with any method of segmentation.
func TestSegmentEncodeEqualsSeparateOperations(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	recursive, err := schema.Segmentation{By: schema.ByRecursion, MaxCharacters: 200}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []schema.Segmentation{segmented(t), recursive} {
		t.Run(by.By, func(t *testing.T) {
			documents := []wire.SegmentEncodeDocument{documentOf("Äpfel", by, 3), documentOf("", by, 1, 4), documentOf("Long", by, 30, 30, 30)}
			made, err := client.SegmentEncode(t.Context(), wire.LaneBulk, by, documents, 2)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range documents {
				stepByStep(t, client, by, d, made[i])
			}
			if made[0].Unlinked || !made[2].Unlinked {
				t.Errorf("the linker reads 8 passages: of %d and %d, unlinked %v and %v", made[0].Vectors.Len(), made[2].Vectors.Len(), made[0].Unlinked, made[2].Unlinked)
			}
		})
	}
}

// stepByStep compares the result for a document with the separate operations.
func stepByStep(t *testing.T, client *modelclient.Client, by schema.Segmentation, d wire.SegmentEncodeDocument, made *wire.SegmentEncodeResult) {
	t.Helper()
	if made == nil {
		t.Fatalf("%q was not made", d.Title)
	}
	var inputs []string
	for i, s := range d.Sections {
		units := text.Units(s.Text, by)
		var scores []float64
		if by.Scored() {
			run := make([]string, len(units))
			for j, r := range units {
				run[j] = strings.TrimSpace(r.Of(s.Text))
			}
			found, threshold, err := client.Segment(t.Context(), wire.LaneBulk, [][]string{run})
			if err != nil {
				t.Fatal(err)
			}
			by.Threshold = threshold
			for _, x := range found[0] {
				scores = append(scores, float64(x))
			}
		}
		passages, err := text.Passages(s.Text, units, scores, by)
		if err != nil {
			t.Fatal(err)
		}
		var lengths, tokens []int
		for _, p := range passages {
			lengths, tokens = append(lengths, p.End-p.Start), append(tokens, p.Tokens)
			input, _ := text.InContext(d.Title, []string{"above", s.Heading}, s.Text[p.Start:p.End])
			inputs = append(inputs, input)
		}
		if !slices.Equal(made.Passages[i], lengths) || !slices.Equal(made.Tokens[i], tokens) {
			t.Errorf("section %d became %v of %v tokens, want %v of %v", i, made.Passages[i], made.Tokens[i], lengths, tokens)
		}
	}
	vectors, space, err := client.Encode(t.Context(), wire.LaneBulk, inputs)
	if err != nil || made.Space != space || made.Vectors.Len() != len(inputs) {
		t.Fatalf("%d vectors of %s for %d passages, want those of %s, %v", made.Vectors.Len(), made.Space, len(inputs), space, err)
	}
	for i := range inputs {
		near(t, fmt.Sprint("passage ", i), made.Vectors.Row(i), vectors.Row(i))
	}
	if !made.Unlinked {
		links, _, err := client.Link(t.Context(), wire.LaneBulk, space, []wire.Vectors{vectors}, 2)
		if err != nil {
			t.Fatal(err)
		}
		nearLinks(t, d.Title, made.Links, links[0])
	}
}

func TestRequestsToCutThatDoNotFitTogether(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	good := wire.SegmentEncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, By: segmented(t), Keep: 1,
		Titles: []string{"T"}, Sections: []int{1}, Headings: []string{""}, Texts: []string{"Ein ä. Zwei."}, Sentences: [][]int{{8, 5}}}
	for name, c := range map[string]struct {
		change func(r *wire.SegmentEncodeRequest)
		field  string
	}{
		"a lane":               {func(r *wire.SegmentEncodeRequest) { r.Lane = "slow" }, "lane"},
		"similarity":           {func(r *wire.SegmentEncodeRequest) { r.By = schema.Segmentation{By: schema.BySimilarity} }, "by"},
		"a setting":            {func(r *wire.SegmentEncodeRequest) { r.By.MaxTokens = 0 }, "texts"},
		"links":                {func(r *wire.SegmentEncodeRequest) { r.Keep = -1 }, "keep"},
		"titles":               {func(r *wire.SegmentEncodeRequest) { r.Titles = nil }, "titles"},
		"a negative count":     {func(r *wire.SegmentEncodeRequest) { r.Titles, r.Sections = []string{"", ""}, []int{-1, 2} }, "sections"},
		"too few texts":        {func(r *wire.SegmentEncodeRequest) { r.Sections = []int{2} }, "sections"},
		"too many texts":       {func(r *wire.SegmentEncodeRequest) { r.Texts = append(r.Texts, "more") }, "texts"},
		"headings":             {func(r *wire.SegmentEncodeRequest) { r.Headings = nil }, "headings"},
		"sentences of no text": {func(r *wire.SegmentEncodeRequest) { r.Sentences = append(r.Sentences, []int{1}) }, "sentences"},
		"too short":            {func(r *wire.SegmentEncodeRequest) { r.Sentences = [][]int{{8, 4}} }, "sentences"},
		"too long":             {func(r *wire.SegmentEncodeRequest) { r.Sentences = [][]int{{8, 6}} }, "sentences"},
		"of no bytes":          {func(r *wire.SegmentEncodeRequest) { r.Sentences = [][]int{{8, 0, 5}} }, "sentences"},
		"inside a character":   {func(r *wire.SegmentEncodeRequest) { r.Sentences = [][]int{{5, 8}} }, "sentences"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			reply := receive[wire.SegmentEncodeReply](t, send(t, nc, wire.OpSegmentEncode, r))
			if reply.Error == nil || reply.Error.Code != schema.CodeInvalid || reply.Error.Field != c.field {
				t.Errorf("got %+v, want an error of field %s", reply.Error, c.field)
			}
		})
	}
	if reply := receive[wire.SegmentEncodeReply](t, send(t, nc, wire.OpSegmentEncode, good)); reply.Error != nil || len(reply.Passages) != 1 || reply.Vectors.Len() != len(reply.Passages[0]) {
		t.Errorf("the good one got %+v", reply)
	}
}

// TestFramesAreSentOnRequestOnly: requests without the header get JSON as before. A request may
// be a frame whatever the form of the reply.
func TestFramesAreSentOnRequestOnly(t *testing.T) {
	nc, _ := serving(t, openFull(t), ServerOptions{})
	request := wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Texts: []string{"a text"}}
	var rows []float32
	for _, asked := range []bool{false, true} {
		for _, write := range []func(any) ([]byte, error){wire.Encode, wire.EncodeFrame} {
			data, err := write(request)
			if err != nil {
				t.Fatal(err)
			}
			msg := &nats.Msg{Subject: wire.ModelSubject(wire.OpEncode), Data: data, Header: nats.Header{}}
			if asked {
				msg.Header.Set(wire.HeaderFrames, wire.FrameVersion)
			}
			answer, err := nc.RequestMsgWithContext(waittest.Context(t), msg)
			if err != nil {
				t.Fatal(err)
			}
			if wire.IsFrame(answer.Data) != asked || (answer.Header.Get(wire.HeaderFrames) == wire.FrameVersion) != asked {
				t.Errorf("asked for a frame: %v; got %.40q with %v", asked, answer.Data, answer.Header)
			}
			reply, err := wire.Decode[wire.EncodeReply](answer.Data)
			if err != nil || reply.Vectors.Len() != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
			if rows != nil && !slices.Equal(rows, reply.Vectors.Row(0)) {
				t.Error("the vector of one form is not that of the other")
			}
			rows = reply.Vectors.Row(0)
		}
	}
	if lane := laneOf(frameOf(t, request)); lane != wire.LaneInteractive {
		t.Errorf("the lane of a frame is %s", lane)
	}
	msg := &nats.Msg{Subject: wire.ModelSubject(wire.OpEncode), Data: frameOf(t, request)[:20], Header: nats.Header{wire.HeaderFrames: {wire.FrameVersion}}}
	answer, err := nc.RequestMsgWithContext(waittest.Context(t), msg)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := wire.Decode[wire.EncodeReply](answer.Data); err != nil || reply.Error == nil || reply.Error.Code != schema.CodeInvalid || !strings.Contains(reply.Error.Message, "frame ends in its head") {
		t.Errorf("a frame that is cut off got %+v, %v", reply.Error, err)
	}
}

func frameOf(t *testing.T, m any) []byte {
	t.Helper()
	data, err := wire.EncodeFrame(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
