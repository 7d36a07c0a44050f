package wire

// This file has the messages of segment_encode. Their lists are columns: each has a value for every
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
	// By says how sections are cut, with all settings; a threshold of 0 is the pack's own.
	// Similarity is refused.
	By schema.Segmentation `json:"by"`
	// Keep is the most links of a passage that are returned; 0: none.
	Keep int `json:"keep,omitempty"`
	// Titles are the titles of the documents, Sections the number of sections of each.
	Titles   []string `json:"titles"`
	Sections []int    `json:"sections"`
	// Headings are the nearest heading above each section, Texts the sections' texts, and Sentences
	// the lengths in UTF-8 bytes of each text's sentences, which tile it.
	Headings  []string `json:"headings"`
	Texts     []string `json:"texts"`
	Sentences [][]int  `json:"sentences"`
}

// Terms returns the request's lane and deadline.
func (r SegmentEncodeRequest) Terms() (Lane, time.Time) { return r.Lane, r.Deadline }

func (r *SegmentEncodeRequest) codeParts(p *partCodec) {
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
	// Passages are, for each section, the lengths in UTF-8 bytes of its passages, which tile it.
	// Tokens is the number of tokens of each, by text.CountTokens.
	Passages [][]int `json:"passages"`
	Tokens   [][]int `json:"tokens"`
	// Vectors are the vectors of all passages, in order, each encoded with its title and heading in
	// front.
	Vectors Vectors `json:"vectors"`
	// Links are the links of LinkReply, one window per document. They are empty for a document with
	// more passages than the linker reads, and missing without a linker.
	Links [][][]PassageLink `json:"links,omitempty"`
	// Truncated is how many passages were longer than the model reads.
	Truncated int `json:"truncated,omitempty"`
}

func (r *SegmentEncodeReply) codeParts(p *partCodec) {
	p.numberLists(&r.Passages)
	p.numberLists(&r.Tokens)
	p.vectors(&r.Vectors)
	p.links(&r.Links)
}

// SegmentEncodeDocument is a document to be cut into passages.
type SegmentEncodeDocument struct {
	Title    string
	Sections []SegmentEncodeSection
}

// SegmentEncodeSection is a section of a SegmentEncodeDocument.
type SegmentEncodeSection struct {
	Heading   string // the nearest one above it
	Text      string
	Sentences []int // lengths in UTF-8 bytes; they tile the text
}

// SegmentEncodeResult is the result for a SegmentEncodeDocument.
type SegmentEncodeResult struct {
	Space string
	// Passages are, for each section, the lengths in UTF-8 bytes of its passages. Tokens is the
	// number of tokens of each.
	Passages, Tokens [][]int
	Vectors          Vectors // of all passages
	// Links are, for each passage, its strongest links; nil if the pack has no linker. Unlinked
	// says that the document has more passages than are linked at once, so that a LinkRequest is
	// needed.
	Links    [][]PassageLink
	Unlinked bool
}
