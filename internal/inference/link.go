package inference

// This file answers link: which other passages of its window each passage attends to most.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// linkBytes is the most bytes that a link takes in a reply.
const linkBytes = 40

func init() { handle(wire.OpLink, (*service).link) }

// link answers wire.LinkRequest.
func (s *service) link(ctx context.Context, caller batch.Caller, data []byte) (wire.LinkReply, error) {
	var reply wire.LinkReply
	request, ctx, cancel, err := begin[wire.LinkRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	passages, linkCount, err := s.checkLink(request)
	if err != nil {
		return reply, err
	}
	if err := s.fits("windows", linkCount, linkBytes); err != nil {
		return reply, err
	}
	if err := s.load.add(request.Lane, 0, passages); err != nil {
		return reply, err
	}
	defer s.load.remove(0, passages)
	links, err := s.linkWindows(ctx, caller, request.Windows, request.Keep)
	if err != nil {
		return reply, err
	}
	return wire.LinkReply{Envelope: wire.Header(), Model: s.model.name(), Links: links}, nil
}

// linkWindows returns each passage's strongest links. No window is longer than the linker reads.
func (s *service) linkWindows(ctx context.Context, caller batch.Caller, all []wire.Vectors, keep int) ([][][]wire.PassageLink, error) {
	var windows []window
	attention := make([][]float32, len(all))
	for i, vectors := range all {
		n := vectors.Len()
		// A single passage has no other to attend to.
		if n > 1 {
			attention[i] = make([]float32, n*n)
			windows = append(windows, window{vectors: vectors.Data, passages: n, attention: attention[i]})
		}
	}
	if err := s.linking.Do(ctx, caller, windows); err != nil {
		return nil, err
	}
	links := make([][][]wire.PassageLink, len(all))
	for i, vectors := range all {
		n := vectors.Len()
		links[i] = make([][]wire.PassageLink, n)
		for j := range n {
			links[i][j] = []wire.PassageLink{}
			if n > 1 {
				links[i][j] = topLinks(attention[i][j*n:(j+1)*n], j, keep)
			}
		}
	}
	return links, nil
}

// checkLink checks a request. It returns how many passages the request has and how many links it
// asks for.
func (s *service) checkLink(request wire.LinkRequest) (passages, links int, err error) {
	if request.Keep <= 0 {
		return 0, 0, schema.Invalid("keep", "%d is not positive", request.Keep)
	}
	if request.Space != s.model.manifest.Space {
		return 0, 0, schema.Invalid("space", "%q is not %q, whose vectors the model pack %s links: encode the passages with it",
			request.Space, s.model.manifest.Space, s.model.name())
	}
	maxPassages := s.model.manifest.Linker.MaxPassages
	for i, vectors := range request.Windows {
		n := vectors.Len()
		switch {
		case n > 0 && vectors.Dimension != s.model.dimension():
			return 0, 0, schema.Invalid("windows", "window %d has vectors of dimension %d, the model's have %d", i, vectors.Dimension, s.model.dimension())
		case n > maxPassages:
			return 0, 0, schema.Invalid("windows", "window %d has %d passages, the linker reads %d: send windows that overlap", i, n, maxPassages)
		}
		if err := finite(vectors.Data); err != nil {
			return 0, 0, schema.Invalid("windows", "window %d: %v", i, err)
		}
		passages += n
		links += n * max(1, min(request.Keep, n-1))
	}
	return passages, links, nil
}

// topLinks returns the keep strongest links of passage self: strongest first, and of equal ones
// the nearer first. attention is that of self to all passages of its window. keep is small, so each
// link is inserted into the sorted list of the best so far.
func topLinks(attention []float32, self, keep int) []wire.PassageLink {
	keep = min(keep, len(attention)-1)
	links := make([]wire.PassageLink, 0, keep)
	distance := func(l wire.PassageLink) int { return max(l.To-self, self-l.To) }
	for to, weight := range attention {
		if to == self || len(links) == keep && weight < links[keep-1].Weight {
			continue
		}
		l, i := wire.PassageLink{To: to, Weight: weight}, len(links)
		for i > 0 && (weight > links[i-1].Weight || weight == links[i-1].Weight && distance(l) < distance(links[i-1])) {
			i--
		}
		if len(links) < keep {
			links = append(links, l)
		} else if i == keep {
			continue
		}
		copy(links[i+1:], links[i:])
		links[i] = l
	}
	return links
}
