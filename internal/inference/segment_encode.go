package inference

// This file answers segment_encode: it cuts sections into passages and computes the passages'
// vectors and links in a single request.

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func init() { handle(wire.OpSegmentEncode, (*service).segmentEncode) }

// segmentEncode answers wire.SegmentEncodeRequest. The sentences of all sections are queued
// together, and then the passages of all sections.
func (s *service) segmentEncode(ctx context.Context, caller batch.Caller, data []byte) (wire.SegmentEncodeReply, error) {
	var reply wire.SegmentEncodeReply
	request, ctx, cancel, err := begin[wire.SegmentEncodeRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	work, err := newSegmentationState(request)
	if err != nil {
		return reply, err
	}
	acquired := 0
	defer func() { s.load.remove(0, acquired) }()
	acquire := func(n int) error {
		err := s.load.add(request.Lane, 0, n)
		if err == nil {
			acquired += n
		}
		return err
	}
	if err := acquire(len(work.sentences)); err != nil {
		return reply, err
	}
	if request.By.Scored() {
		scores, err := s.scoreRuns(ctx, wire.OpSegmentEncode, caller, work.runs, work.sentences)
		if err != nil {
			return reply, err
		}
		work.scores = scores
		if request.By.Threshold == 0 {
			request.By.Threshold = s.model.manifest.Segmenter.Threshold
		}
	}
	reply = wire.SegmentEncodeReply{Envelope: wire.Header(), Model: s.model.name(), Space: s.model.manifest.Space}
	inputs, counts, err := s.cut(ctx, work, request, &reply)
	if err != nil {
		return wire.SegmentEncodeReply{}, err
	}
	// The limit is that of JSON, which is longer than a frame.
	if err := s.fits("texts", len(inputs), s.model.dimension()*4*4/3+request.Keep*linkBytes+16); err != nil {
		return wire.SegmentEncodeReply{}, err
	}
	if err := acquire(len(inputs)); err != nil {
		return wire.SegmentEncodeReply{}, err
	}
	passages, err := s.tokenise(ctx, wire.OpSegmentEncode, request.Lane, s.model.encoder, inputs, 0)
	if err == nil {
		err = s.encoding.Do(ctx, caller, passages.sequences)
	}
	if err != nil {
		return wire.SegmentEncodeReply{}, err
	}
	reply.Vectors = wire.Vectors{Dimension: passages.dimension, Data: passages.vectors}
	reply.Truncated = passages.truncated
	if request.Keep > 0 && s.linking != nil {
		if reply.Links, err = s.linkDocuments(ctx, caller, reply.Vectors, counts, request.Keep); err != nil {
			return wire.SegmentEncodeReply{}, err
		}
	}
	return reply, nil
}

// linkDocuments links the passages of each document that has no more than the linker reads. counts
// has the number of passages of each document.
func (s *service) linkDocuments(ctx context.Context, caller batch.Caller, vectors wire.Vectors, counts []int, keep int) ([][][]wire.PassageLink, error) {
	windows := make([]wire.Vectors, len(counts))
	row := 0
	for i, n := range counts {
		if n <= s.model.manifest.Linker.MaxPassages {
			windows[i] = wire.Vectors{Dimension: vectors.Dimension, Data: vectors.Data[row*vectors.Dimension : (row+n)*vectors.Dimension]}
		}
		row += n
	}
	return s.linkWindows(ctx, caller, windows, keep)
}

// segmentationState is the state of a request while its sections are cut.
type segmentationState struct {
	ranges    [][]text.Range // of each section's sentences
	runs      [][]string     // the sentences, as the segmenter reads them
	sentences []string       // of all runs
	scores    [][]float32
}

// newSegmentationState checks the columns of a request against each other.
func newSegmentationState(r wire.SegmentEncodeRequest) (*segmentationState, error) {
	sections := 0
	for i, n := range r.Sections {
		if n < 0 || n > len(r.Texts)-sections {
			return nil, schema.Invalid("sections", "document %d has %d, and %d texts are left", i, n, len(r.Texts)-sections)
		}
		sections += n
	}
	switch {
	case r.By.By == schema.BySimilarity:
		return nil, schema.Invalid("by", "%s is not cut here: ask for vectors of sentences", schema.BySimilarity)
	case len(r.Titles) != len(r.Sections):
		return nil, schema.Invalid("titles", "%d of %d documents", len(r.Titles), len(r.Sections))
	case len(r.Texts) != sections:
		return nil, schema.Invalid("texts", "%d of %d sections", len(r.Texts), sections)
	case len(r.Headings) != sections:
		return nil, schema.Invalid("headings", "%d of %d sections", len(r.Headings), sections)
	case len(r.Sentences) != sections:
		return nil, schema.Invalid("sentences", "those of %d of %d sections", len(r.Sentences), sections)
	case r.Keep < 0:
		return nil, schema.Invalid("keep", "%d is negative", r.Keep)
	}
	c := &segmentationState{ranges: make([][]text.Range, sections), runs: make([][]string, sections)}
	for i, lengths := range r.Sentences {
		sectionText, offset := r.Texts[i], 0
		c.ranges[i] = make([]text.Range, len(lengths))
		for j, n := range lengths {
			if n <= 0 || n > len(sectionText)-offset || !utf8.RuneStart(sectionText[offset]) {
				return nil, schema.Invalid("sentences", "sentence %d of section %d has %d bytes of the %d that are left, or begins inside a character", j, i, n, len(sectionText)-offset)
			}
			c.ranges[i][j] = text.Range{Start: offset, End: offset + n}
			offset += n
		}
		if offset != len(sectionText) {
			return nil, schema.Invalid("sentences", "those of section %d have %d bytes of %d", i, offset, len(sectionText))
		}
		if len(lengths) < 2 {
			continue // nothing to score
		}
		c.runs[i] = make([]string, len(lengths))
		for j, sentence := range c.ranges[i] {
			c.runs[i][j] = strings.TrimSpace(sentence.Of(sectionText))
		}
		c.sentences = append(c.sentences, c.runs[i]...)
	}
	return c, nil
}

// cut runs cutting.cut in a slot.
func (s *service) cut(ctx context.Context, c *segmentationState, r wire.SegmentEncodeRequest, reply *wire.SegmentEncodeReply) (inputs []string, counts []int, err error) {
	if err := s.slots.Acquire(ctx, r.Lane.Background()); err != nil {
		return nil, nil, err
	}
	defer s.slots.Release(r.Lane.Background())
	return c.cut(r, reply)
}

// cut cuts the sections and adds their passages to the reply. It returns the texts to encode, and
// how many each document has.
func (c *segmentationState) cut(r wire.SegmentEncodeRequest, reply *wire.SegmentEncodeReply) (inputs []string, counts []int, err error) {
	section := 0
	for document, n := range r.Sections {
		before := len(inputs)
		for range n {
			passages, err := c.passages(r, section)
			if err != nil {
				return nil, nil, schema.Invalid("texts", "section %d of document %d: %v", section, document, err)
			}
			lengths, tokens := make([]int, len(passages)), make([]int, len(passages))
			for i, p := range passages {
				lengths[i], tokens[i] = p.End-p.Start, p.Tokens
				input, _ := text.InContext(r.Titles[document], []string{r.Headings[section]}, r.Texts[section][p.Start:p.End])
				inputs = append(inputs, input)
			}
			reply.Passages, reply.Tokens = append(reply.Passages, lengths), append(reply.Tokens, tokens)
			section++
		}
		counts = append(counts, len(inputs)-before)
	}
	return inputs, counts, nil
}

// passages cuts a section. It returns a panic of the segmentation code as an error, because this
// server has other requests.
func (c *segmentationState) passages(r wire.SegmentEncodeRequest, section int) (passages []schema.Passage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cutting it failed: %v", p)
		}
	}()
	scores := make([]float64, max(0, len(c.ranges[section])-1))
	if c.scores != nil {
		for i, x := range c.scores[section] {
			scores[i] = float64(x)
		}
	}
	return text.Passages(r.Texts[section], c.ranges[section], scores, r.By)
}
