package wire

// This file has the messages of segment_encode. Their lists are columns: one value for each
// document, section or passage.

import (
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// SegmentEncodeRequest asks to cut sections of documents into passages, and for the passages'
// vectors and links.
type SegmentEncodeRequest struct {
	Envelope
	Lane     Lane      `json:"lane"`
	Deadline time.Time `json:"deadline,omitzero"`
	// By says how sections are cut, with all its settings; a threshold of 0 is the pack's own.
	// Similarity is refused.
	By schema.Segmentation `json:"by"`
	// Keep is how many links of a passage are told at most; 0: none.
	Keep int `json:"keep,omitempty"`
	// Titles are the documents', Sections how many sections each of them has.
	Titles   []string `json:"titles"`
	Sections []int    `json:"sections"`
	// Headings are what stands nearest above each section, Texts what is cut, Sentences the lengths
	// in UTF-8 bytes of each text's sentences, which tile it.
	Headings  []string `json:"headings"`
	Texts     []string `json:"texts"`
	Sentences [][]int  `json:"sentences"`
}

// Terms are the request's lane and deadline.
func (r SegmentEncodeRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *SegmentEncodeRequest) lift(p *parts) {
	p.texts(&r.Titles)
	p.numbers(&r.Sections)
	p.texts(&r.Headings)
	p.texts(&r.Texts)
	p.numberLists(&r.Sentences)
}

// SegmentEncodeReply answers SegmentEncodeRequest.
type SegmentEncodeReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	Model string              `json:"model,omitempty"`
	Space string              `json:"space,omitempty"`
	// Passages are, for each section, the lengths in UTF-8 bytes of its passages, which tile it;
	// Tokens what each of them has, by text.CountTokens.
	Passages [][]int `json:"passages"`
	Tokens   [][]int `json:"tokens"`
	// Vectors are those of all passages, in order, read behind their title and heading.
	Vectors Vectors `json:"vectors"`
	// Links are those of LinkReply, a window for each document. It is empty for one with more
	// passages than the linker reads; without a linker there are none at all.
	Links [][][]PassageLink `json:"links,omitempty"`
	// Truncated is how many passages were longer than the model reads.
	Truncated int `json:"truncated,omitempty"`
}

func (r *SegmentEncodeReply) lift(p *parts) {
	p.numberLists(&r.Passages)
	p.numberLists(&r.Tokens)
	p.vectors(&r.Vectors)
	p.links(&r.Links)
}

// Uncut is a document that is to become passages.
type Uncut struct {
	Title    string
	Sections []UncutSection
}

// UncutSection is a section of one.
type UncutSection struct {
	Heading   string // that stands nearest above it
	Text      string
	Sentences []int // lengths in UTF-8 bytes; they tile the text
}

// Made is what became of an Uncut.
type Made struct {
	Space string
	// Passages are, of each section, the lengths in UTF-8 bytes of its passages; Tokens what each
	// of them has.
	Passages, Tokens [][]int
	Vectors          Vectors // of all passages
	// Links are, of each passage, the strongest others; nil where the pack has no linker. Unlinked:
	// the document has more passages than are linked at once, so that it takes a LinkRequest.
	Links    [][]PassageLink
	Unlinked bool
}
