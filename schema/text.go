package schema

import "github.com/google/uuid"

// BlockKind is the kind of a parsed block.
type BlockKind string

// Kinds of blocks.
const (
	BlockHeading   BlockKind = "heading"
	BlockParagraph BlockKind = "paragraph"
	BlockList      BlockKind = "list"
	BlockTable     BlockKind = "table"
	BlockCode      BlockKind = "code"
)

// Block is one block of a parsed document, in reading order.
type Block struct {
	Kind  BlockKind `json:"kind"`
	Level int       `json:"level,omitempty"` // of a heading, from 1
	Text  string    `json:"text"`
	Page  int       `json:"page,omitempty"` // from 1; 0 where the format has none
	// Links are the targets of the links in the block, as written, without those inside the
	// document ("#part").
	Links []string `json:"links,omitempty"`
	// Layout is where the text is on its pages (internal/text encodes it); empty if the format has
	// no positions.
	Layout []byte `json:"layout,omitempty"`
}

// Parsed is the result of parsing one file. All text is valid UTF-8 without U+0000.
type Parsed struct {
	MediaType string   `json:"media_type"`
	Title     string   `json:"title,omitempty"`
	Pages     int      `json:"pages,omitempty"`
	Blocks    []Block  `json:"blocks"`
	Warnings  []string `json:"warnings,omitempty"`
	// Recognised are the pages whose text was recognised in images.
	Recognised []RecognisedPage `json:"recognised,omitempty"`
}

// RecognisedPage is the confidence of text recognition in a page. Confidences are from 0 to 1.
type RecognisedPage struct {
	Page       int       `json:"page"`
	Words      int       `json:"words"`
	Confidence float64   `json:"confidence"` // mean of its words
	Lines      []float64 `json:"lines"`      // mean of the words of each line, in reading order
}

// PageMark says that a section's text is on Page from byte Start until the next mark.
type PageMark struct {
	Start int `json:"start"`
	Page  int `json:"page"`
}

// Section is a run of a version's text of at most 1,000 tokens, cut at headings
// and paragraphs.
type Section struct {
	ID          uuid.UUID  `json:"id"`
	Ordinal     int        `json:"ordinal"`
	HeadingPath []string   `json:"heading_path,omitempty"`
	Text        string     `json:"text"`
	Tokens      int        `json:"tokens"`
	Pages       []PageMark `json:"pages,omitempty"`
	Links       []string   `json:"links,omitempty"` // targets, as written
	Layout      []byte     `json:"-"`               // where the text is on its pages; internal/text encodes it
}

// Passage is a run of sentences of a section: bytes [Start, End) of its text. The passages of a
// section tile it.
type Passage struct {
	ID        uuid.UUID `json:"id"`
	SectionID uuid.UUID `json:"section_id"`
	Ordinal   int       `json:"ordinal"` // in its section
	Start     int       `json:"start"`
	End       int       `json:"end"`
	Tokens    int       `json:"tokens"`
}

// Span is a range of text: bytes [Start, End) of a section of a version. Citations are spans. They
// never refer to passages, whose ids change when text is segmented again.
type Span struct {
	Version uuid.UUID `json:"version"`
	Section uuid.UUID `json:"section"`
	Start   int       `json:"start"`
	End     int       `json:"end"`
}
