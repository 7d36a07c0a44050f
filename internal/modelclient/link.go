package modelclient

// This file links the passages of documents: it splits long documents into overlapping windows and
// merges the links of the windows.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Link returns, for each passage of each document, its keep strongest links to other passages of
// the same document, strongest first, as indices into the document with weights in [0, 1]
// (SAKI-RAG's SentenceAttnLinker). A document is its passages' vectors in order, in a space that
// must be the pack's. model names the pack. Without documents, Link returns no links.
//
// A document longer than the model's window is sent in windows that overlap by half, a few per
// request. A passage's links are those of the window in which it is farthest from a border; of two
// equal windows, those with the higher weights.
//
// Errors are as Score's; an error for a wrong space or keep wraps schema.ErrInvalid.
func (c *Client) Link(ctx context.Context, lane wire.Lane, space string, documents []wire.Vectors, keep int) (links [][][]wire.PassageLink, model string, err error) {
	if keep <= 0 {
		return nil, "", schema.Invalid("keep", "%d is not positive", keep)
	}
	if len(documents) == 0 {
		return nil, "", nil
	}
	ctx, finish := c.begin(ctx, wire.OpLink, lane, attribute.Int("documents", len(documents)))
	defer func() { finish(err) }()

	info, err := c.linkerInfo(ctx, space)
	if err != nil {
		return nil, "", fmt.Errorf("link the passages of %d documents: %w", len(documents), err)
	}
	if space != info.Space {
		return nil, "", fmt.Errorf("link the passages of %d documents: %w", len(documents), schema.Invalid("space",
			"the vectors are in %q, the model pack %s links those in %q: encode the passages with it", space, info.Pack, info.Space))
	}
	size := windowSize(info.Limits[wire.OpLink], info.Dimension, keep)
	for i, d := range documents {
		if d.Len() > 0 && d.Dimension != info.Dimension {
			return nil, "", fmt.Errorf("link the passages of %d documents: %w", len(documents), schema.Invalid("documents",
				"document %d has vectors of dimension %d, the model's have %d", i, d.Dimension, info.Dimension))
		}
	}
	parts := splitWindows(documents, size, keep)
	replies := make([]wire.LinkReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		replies[i], err = c.linkPart(ctx, lane, space, documents, parts[i], keep)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("link the passages of %d documents: %w", len(documents), err)
	}
	merged := make([]mergedLinks, len(documents))
	for i, d := range documents {
		merged[i] = newMergedLinks(d.Len(), keep)
	}
	for i, r := range replies {
		if r.Model != replies[0].Model {
			return nil, "", fmt.Errorf("link the passages of %d documents: %w", len(documents), packMismatch(replies[0].Model, r.Model))
		}
		for j, w := range parts[i] {
			merged[w.document].add(w, r.Links[j])
		}
	}
	links = make([][][]wire.PassageLink, len(documents))
	for i, m := range merged {
		links[i] = m.links
	}
	return links, info.Pack + "/" + info.Version, nil
}

// mergedLinks are the links of a document's passages, merged from the windows added so far.
type mergedLinks struct {
	keep   int
	links  [][]wire.PassageLink // To is an index in the document
	margin []int                // margin, in its window, of each passage with links; -1: none
}

func newMergedLinks(passages, keep int) mergedLinks {
	m := mergedLinks{keep: keep, links: make([][]wire.PassageLink, passages), margin: make([]int, passages)}
	for i := range passages {
		m.links[i], m.margin[i] = []wire.PassageLink{}, -1
	}
	return m
}

// add merges the links of a window. It skips passages that have a larger margin in a window added
// before.
func (m *mergedLinks) add(w linkWindow, links [][]wire.PassageLink) {
	for i, passageLinks := range links {
		passage := w.start + i
		margin := m.marginOf(w, passage)
		if margin < m.margin[passage] {
			continue
		}
		if margin > m.margin[passage] {
			m.margin[passage], m.links[passage] = margin, m.links[passage][:0]
		}
		for _, l := range passageLinks {
			l.To += w.start
			m.links[passage] = mergeLink(m.links[passage], l)
		}
		slices.SortFunc(m.links[passage], func(a, b wire.PassageLink) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), a.To-b.To) })
		m.links[passage] = m.links[passage][:min(m.keep, len(m.links[passage]))]
	}
}

// marginOf returns the margin of a passage in a window: its distance to the nearer border
// behind which the document continues.
func (m *mergedLinks) marginOf(w linkWindow, passage int) int {
	margin := len(m.links)
	if w.start > 0 {
		margin = passage - w.start
	}
	if w.end < len(m.links) {
		margin = min(margin, w.end-1-passage)
	}
	return margin
}

// mergeLink adds a link, or raises the weight of the existing link to the same passage.
func mergeLink(links []wire.PassageLink, l wire.PassageLink) []wire.PassageLink {
	i := slices.IndexFunc(links, func(k wire.PassageLink) bool { return k.To == l.To })
	if i < 0 {
		return append(links, l)
	}
	links[i].Weight = max(links[i].Weight, l.Weight)
	return links
}

// infoTTL is how long a server's info is considered current. A server that has changed its pack
// since then rejects vectors of another space and windows that are too long.
const infoTTL = 10 * time.Second

// cachedInfo returns the stored info if it is recent and, when a space is named, of that space;
// else it asks a server.
func (c *Client) cachedInfo(ctx context.Context, space string) (wire.ModelInfo, error) {
	if t := c.info.Load(); t != nil && time.Since(t.at) < infoTTL && (space == "" || t.info.Space == space) {
		return t.info, nil
	}
	return c.Info(ctx)
}

// linkerInfo returns a server's info, and an error when its pack has no linker.
func (c *Client) linkerInfo(ctx context.Context, space string) (wire.ModelInfo, error) {
	info, err := c.cachedInfo(ctx, space)
	if err != nil {
		return info, err
	}
	if info.Limits[wire.OpLink] < 2 || info.Dimension < 1 {
		return info, schema.Invalid("SLUICE_MODEL_PACK", "the model pack %s/%s has no graph for %s: name a pack whose manifest.yaml has a section linker",
			info.Pack, info.Version, wire.OpLink)
	}
	return info, nil
}

func (c *Client) linkPart(ctx context.Context, lane wire.Lane, space string, documents []wire.Vectors, part []linkWindow, keep int) (wire.LinkReply, error) {
	windows := make([]wire.Vectors, len(part))
	for i, w := range part {
		d := documents[w.document]
		windows[i] = wire.Vectors{Dimension: d.Dimension, Data: d.Data[w.start*d.Dimension : w.end*d.Dimension]}
	}
	reply, err := call(ctx, c, wire.OpLink, lane, func(deadline time.Time) any {
		return wire.LinkRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Space: space, Windows: windows, Keep: keep}
	}, func(r wire.LinkReply) *schema.RemoteError { return r.Error })
	if err != nil {
		return reply, err
	}
	if len(reply.Links) != len(part) {
		return reply, fmt.Errorf("the model server gave links of %d windows for %d", len(reply.Links), len(part))
	}
	for i, w := range part {
		n := w.end - w.start
		if len(reply.Links[i]) != n {
			return reply, fmt.Errorf("the model server gave links of %d passages for %d", len(reply.Links[i]), n)
		}
		if err := checkLinkRange(reply.Links[i], n); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// checkLinkRange returns an error if a link leads outside of a window of n passages.
func checkLinkRange(links [][]wire.PassageLink, n int) error {
	for _, passageLinks := range links {
		for _, l := range passageLinks {
			if l.To < 0 || l.To >= n {
				return fmt.Errorf("the model server gave a link to passage %d of %d", l.To, n)
			}
		}
	}
	return nil
}

// linkWindow is the passages of a document from start up to, but without, end.
type linkWindow struct{ document, start, end int }

// windowSize returns how many passages a window has: at most limit, which is what the model reads,
// and so few that their vectors and links fit in a message.
func windowSize(limit, dimension, keep int) int {
	size := min(limit, (partBytes-windowBytes)/vectorBytes(dimension))
	for size > 2 && size*min(keep, size-1)*linkBytes > linkReplyBytes {
		size--
	}
	return max(2, size)
}

// vectorBytes returns the size of a vector in a request, as base64 of float32.
func vectorBytes(dimension int) int { return (4*dimension+2)/3*4 + 1 }

// windowsOf returns the windows of n passages: each has size passages and overlaps the next by
// half. The last window is moved back so that it has size passages, too.
func windowsOf(n, size int) (windows []linkWindow) {
	if n <= size {
		return []linkWindow{{end: n}}
	}
	for start := 0; ; start += (size + 1) / 2 {
		if start+size >= n {
			return append(windows, linkWindow{start: n - size, end: n})
		}
		windows = append(windows, linkWindow{start: start, end: start + size})
	}
}

// Sizes in bytes: of a window in a request besides its vectors, of a link in a reply, and the most
// that all links of a reply may take.
const (
	windowBytes    = 64
	linkBytes      = 40
	linkReplyBytes = 900 << 10
)

// splitWindows puts the windows of all documents into parts whose requests and replies fit a
// message.
func splitWindows(documents []wire.Vectors, size, keep int) (parts [][]linkWindow) {
	var part []linkWindow
	requestSize, replySize := 0, 0
	for i, d := range documents {
		if d.Len() < 2 { // no other passage to link to
			continue
		}
		for _, w := range windowsOf(d.Len(), size) {
			w.document = i
			n := w.end - w.start
			windowRequest, windowReply := n*vectorBytes(d.Dimension)+windowBytes, n*min(keep, n-1)*linkBytes
			if len(part) > 0 && (requestSize+windowRequest > partBytes || replySize+windowReply > linkReplyBytes) {
				parts, part, requestSize, replySize = append(parts, part), nil, 0, 0
			}
			part, requestSize, replySize = append(part, w), requestSize+windowRequest, replySize+windowReply
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}
