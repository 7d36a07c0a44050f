package llm

// Reasoning models write their reasoning before the reply, between <think> and </think>. It is not
// part of the reply.

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// withoutReasoning removes the reasoning at the beginning of a reply. Some servers leave out its
// opening tag. The result is empty if the reply was cut off during the reasoning.
func withoutReasoning(reply string) string {
	var r reasoning
	reply = r.skip(reply) + r.flush()
	if strings.HasPrefix(strings.TrimLeft(reply, " \t\r\n"), "{") {
		return reply
	}
	if _, after, found := strings.Cut(reply, thinkClose); found {
		return after
	}
	return reply
}

// reasoning skips the reasoning at the beginning of a reply that comes in pieces, cut anywhere.
type reasoning struct {
	state    reasoningState
	buffered string // text that may be the beginning of a tag
}

type reasoningState int

const (
	beforeReply reasoningState = iota
	inReasoning
	inReply
)

// skip takes a piece and returns the part of the reply that is certain after it.
func (r *reasoning) skip(piece string) string {
	for {
		switch r.state {
		case beforeReply:
			r.buffered += piece
			begin := strings.TrimLeft(r.buffered, " \t\r\n")
			switch {
			case strings.HasPrefix(begin, thinkOpen):
				r.state, piece, r.buffered = inReasoning, begin[len(thinkOpen):], ""
				continue
			case strings.HasPrefix(thinkOpen, begin):
				return "" // it may become the tag
			}
			r.state, piece, r.buffered = inReply, r.buffered, ""
			return piece
		case inReasoning:
			r.buffered += piece
			_, rest, found := strings.Cut(r.buffered, thinkClose)
			if !found {
				r.buffered = r.buffered[max(0, len(r.buffered)-len(thinkClose)+1):]
				return ""
			}
			r.state, piece, r.buffered = beforeReply, rest, "" // some models reason twice
			continue
		default:
			return piece
		}
	}
}

// flush returns the text held back at the end of a reply.
func (r *reasoning) flush() string {
	if r.state == beforeReply {
		return r.buffered
	}
	return ""
}
