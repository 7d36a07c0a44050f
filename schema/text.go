package schema

import "github.com/google/uuid"

// BlockKind says what a parsed block is.
type BlockKind string

// Kinds of blocks.
const (
	BlockHeading   BlockKind = "heading"
	BlockParagraph BlockKind = "paragraph"
	BlockList      BlockKind = "list"
	BlockTable     BlockKind = "table"
	BlockCode      BlockKind = "code"
)

// Block is one piece of a parsed document in reading order.
type Block struct {
	Kind  BlockKind `json:"kind"`
	Level int       `json:"level,omitempty"` // of a heading, from 1
	Text  string    `json:"text"`
	Page  int       `json:"page,omitempty"` // from 1; 0 where the format has none
	// Links are the targets of the links in it, as written, without those that
	// stay in the document ("#part").
	Links []string `json:"links,omitempty"`
	// Layout says where on its pages the text stands (internal/text encodes it);
	// empty where the format has no places.
	Layout []byte `json:"layout,omitempty"`
}

// Parsed is what a parser makes of one file. All text is valid UTF-8 without
// U+0000.
type Parsed struct {
	MediaType string   `json:"media_type"`
	Title     string   `json:"title,omitempty"`
	Pages     int      `json:"pages,omitempty"`
	Blocks    []Block  `json:"blocks"`
	Warnings  []string `json:"warnings,omitempty"`
	// Recognised are the pages whose text was recognised in an image.
	Recognised []RecognisedPage `json:"recognised,omitempty"`
}

// RecognisedPage says how sure text recognition was of a page. Confidences are from 0 to 1.
type RecognisedPage struct {
	Page       int       `json:"page"`
	Words      int       `json:"words"`
	Confidence float64   `json:"confidence"` // the mean of its words
	Lines      []float64 `json:"lines"`      // the mean of each line's words, in reading order
}

// PageMark says that a section's text from byte Start on lies on Page, until
// the next mark.
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
	Layout      []byte     `json:"-"`               // where on its pages the text stands, internal/text encodes it
}

// Passage is a segmented run of sentences in a section: bytes [Start, End) of
// its text. The passages of a section tile it.
type Passage struct {
	ID        uuid.UUID `json:"id"`
	SectionID uuid.UUID `json:"section_id"`
	Ordinal   int       `json:"ordinal"` // in its section
	Start     int       `json:"start"`
	End       int       `json:"end"`
	Tokens    int       `json:"tokens"`
}

// Span points at text: bytes [Start, End) of a section of a version. Citations
// are spans; they never point at passages, whose ids change on re-segmentation.
type Span struct {
	Version uuid.UUID `json:"version"`
	Section uuid.UUID `json:"section"`
	Start   int       `json:"start"`
	End     int       `json:"end"`
}
