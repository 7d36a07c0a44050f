package lexical

import (
	"errors"

	"github.com/google/uuid"
)

var errUnfinished = errors.New("unfinished")

// ErrCorrupt is what reading a header or a page returns when its bytes are not
// those that were written.
var ErrCorrupt = errors.New("corrupt lexical data")

// Segment is a segment's header: what it counts and which terms its pages hold.
type Segment struct {
	ID uuid.UUID
}

// OpenSegment reads a header.
func OpenSegment(id uuid.UUID, header []byte) (*Segment, error) { return nil, errUnfinished }

// Bytes is about what the header takes in memory.
func (s *Segment) Bytes() int { return 0 }

// Documents is the number of entries, dead ones too.
func (s *Segment) Documents() int { return 0 }

// Passages is the number of passages, those of dead entries too.
func (s *Segment) Passages() int { return 0 }

// PagesOf lists the numbers, rising and without repetition, of the pages that
// may hold the terms.
func (s *Segment) PagesOf(terms []string) []int { return nil }

// DirectoryPages lists the numbers of the pages that OpenDirectory reads, in
// its order.
func (s *Segment) DirectoryPages() []int { return nil }

// PageCount is the number of pages, those of the directory too.
func (s *Segment) PageCount() int { return 0 }

// LabelTerm is the term of a label.
func LabelTerm(label string) string { return "\x00l" + label }

// OpenTerm is the term of entries without labels.
const OpenTerm = "\x00o"

// Page is a decoded page of terms. It keeps the bytes that it was decoded from.
type Page struct{}

// DecodePage reads a page of terms. The page keeps data.
func DecodePage(data []byte) (*Page, error) { return nil, errUnfinished }

// Bytes is about what the page takes in memory.
func (p *Page) Bytes() int { return 0 }
