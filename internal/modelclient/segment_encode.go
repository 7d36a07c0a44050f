package modelclient

// This file segments, encodes and links documents in one request.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// errNoSegmentEncode means that no server has the operation segment_encode.
var errNoSegmentEncode = errors.New("no model server has the operation segment_encode")

// segmentEncodeRetryDelay is how long segment_encode is not requested after no server had it.
const segmentEncodeRetryDelay = time.Minute

// SegmentEncode cuts the sections of documents into passages, as by says, encodes the passages, and
// returns up to keep links of each passage; keep 0: no links. The result of a document is nil when
// it has to be segmented and encoded in separate requests: servers do not have this operation, the
// document fits in no message, or the server rejects the request, maybe for another document in it.
// Other errors are as Encode's.
func (c *Client) SegmentEncode(ctx context.Context, lane wire.Lane, by schema.Segmentation, documents []wire.SegmentEncodeDocument, keep int) (results []*wire.SegmentEncodeResult, err error) {
	results = make([]*wire.SegmentEncodeResult, len(documents))
	if len(documents) == 0 || by.By == schema.BySimilarity || !c.segmentEncodeCooldown.expired(time.Now()) {
		return results, nil
	}
	ctx, finish := c.begin(ctx, wire.OpSegmentEncode, lane, attribute.Int("documents", len(documents)))
	defer func() { finish(err) }()

	info, err := c.cachedInfo(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("cut and encode %d documents: %w", len(documents), err)
	}
	if !slices.Contains(info.Operations, wire.OpSegmentEncode) {
		return results, nil
	}
	parts := splitDocuments(documents, info.Dimension*4*4/3+keep*linkBytes+16)
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) error {
		return c.segmentEncodePart(ctx, lane, by, documents, parts[i], keep, results)
	})
	if err != nil {
		return nil, fmt.Errorf("cut and encode %d documents: %w", len(documents), err)
	}
	return results, nil
}

// splitDocuments puts the indices of documents into parts whose requests fit in a message, and
// whose replies mostly do: a passage takes passageBytes in a reply and mostly has two sentences or
// more. Documents that fit in no message are left out.
func splitDocuments(documents []wire.SegmentEncodeDocument, passageBytes int) (parts [][]int) {
	maxSentences := min(partSentences, 2*max(1, replyBytes/passageBytes))
	var part []int
	bytes, sentences := 0, 0
	for i, d := range documents {
		docBytes, docSentences := sizeOf(d)
		if docBytes > partBytes || docSentences > partSentences {
			continue
		}
		if len(part) > 0 && (bytes+docBytes > partBytes || sentences+docSentences > maxSentences) {
			parts, part, bytes, sentences = append(parts, part), nil, 0, 0
		}
		part, bytes, sentences = append(part, i), bytes+docBytes, sentences+docSentences
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// sizeOf returns what a document takes in a request, and how many sentences it has.
func sizeOf(d wire.SegmentEncodeDocument) (bytes, sentences int) {
	text := func(s string) {
		n, _ := size(s, 0)
		bytes += n
	}
	text(d.Title)
	for _, s := range d.Sections {
		text(s.Heading)
		text(s.Text)
		bytes += 8 * (1 + len(s.Sentences))
		sentences += len(s.Sentences)
	}
	return bytes, sentences
}

// segmentEncodePart sends the request for the documents of a part and stores the results in made.
// When the reply would be too large, it sends the two halves of the part instead.
func (c *Client) segmentEncodePart(ctx context.Context, lane wire.Lane, by schema.Segmentation, documents []wire.SegmentEncodeDocument, part []int, keep int, results []*wire.SegmentEncodeResult) error {
	request := wire.SegmentEncodeRequest{Envelope: wire.Header(), Lane: lane, By: by, Keep: keep}
	for _, i := range part {
		d := documents[i]
		request.Titles, request.Sections = append(request.Titles, d.Title), append(request.Sections, len(d.Sections))
		for _, s := range d.Sections {
			request.Headings, request.Texts = append(request.Headings, s.Heading), append(request.Texts, s.Text)
			request.Sentences = append(request.Sentences, s.Sentences)
		}
	}
	reply, err := call(ctx, c, wire.OpSegmentEncode, lane, func(deadline time.Time) any {
		request.Deadline = deadline
		return request
	}, func(r wire.SegmentEncodeReply) *schema.RemoteError { return r.Error })
	switch {
	case tooLarge(err) && len(part) > 1:
		if err := c.segmentEncodePart(ctx, lane, by, documents, part[:len(part)/2], keep, results); err != nil {
			return err
		}
		return c.segmentEncodePart(ctx, lane, by, documents, part[len(part)/2:], keep, results)
	case errors.Is(err, errNoSegmentEncode):
		c.segmentEncodeCooldown.start(time.Now(), segmentEncodeRetryDelay)
		return nil
	case tooLarge(err), errors.Is(err, schema.ErrInvalid): // separate requests show which step fails
		return nil
	case err != nil:
		return err
	}
	return distribute(request, reply, part, results)
}

// distribute divides a reply among its documents.
func distribute(request wire.SegmentEncodeRequest, reply wire.SegmentEncodeReply, part []int, results []*wire.SegmentEncodeResult) error {
	if len(reply.Passages) != len(request.Texts) || len(reply.Tokens) != len(request.Texts) || len(reply.Links) > 0 && len(reply.Links) != len(part) {
		return fmt.Errorf("the model server gave passages of %d sections for %d, tokens of %d, links of %d documents for %d",
			len(reply.Passages), len(request.Texts), len(reply.Tokens), len(reply.Links), len(part))
	}
	section, row, dimension := 0, 0, reply.Vectors.Dimension
	for n, i := range part {
		from, to := section, section+request.Sections[n]
		passages := 0
		for ; section < to; section++ {
			if err := checkTiling(request.Texts[section], reply.Passages[section], reply.Tokens[section]); err != nil {
				return err
			}
			passages += len(reply.Passages[section])
		}
		if row+passages > reply.Vectors.Len() {
			return fmt.Errorf("the model server gave %d vectors for %d passages or more", reply.Vectors.Len(), row+passages)
		}
		m := &wire.SegmentEncodeResult{Space: reply.Space, Passages: reply.Passages[from:to], Tokens: reply.Tokens[from:to],
			Vectors: wire.Vectors{Dimension: dimension, Data: reply.Vectors.Data[row*dimension : (row+passages)*dimension]}}
		if len(reply.Links) > 0 {
			m.Links, m.Unlinked = reply.Links[n], len(reply.Links[n]) == 0 && passages > 0
			if !m.Unlinked && len(m.Links) != passages {
				return fmt.Errorf("the model server gave links of %d passages for %d", len(m.Links), passages)
			}
			if err := checkLinkRange(m.Links, passages); err != nil {
				return err
			}
		}
		results[i], row = m, row+passages
	}
	if row != reply.Vectors.Len() {
		return fmt.Errorf("the model server gave %d vectors for %d passages", reply.Vectors.Len(), row)
	}
	return nil
}

// checkTiling returns an error if the passages do not tile a section's text.
func checkTiling(text string, lengths, tokens []int) error {
	remaining := len(text)
	for _, n := range lengths {
		if n <= 0 {
			return errors.New("the model server gave a passage of no bytes")
		}
		remaining -= n
	}
	if remaining != 0 || len(tokens) != len(lengths) {
		return fmt.Errorf("the model server gave %d passages with %d bytes less than their section, and tokens of %d", len(lengths), remaining, len(tokens))
	}
	return nil
}
