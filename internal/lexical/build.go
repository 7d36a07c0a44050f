package lexical

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Built is a new segment, ready to be stored: pages are numbered from 0 in
// their order.
type Built struct {
	ID        uuid.UUID
	Header    []byte
	Pages     []BuiltPage
	Documents int // entries
	Passages  int
	Bytes     int64 // of header and pages
}

// BuiltPage is a page with its first and its last term; both are empty in pages
// of the directory.
type BuiltPage struct {
	First, Last string
	Data        []byte
}

// Build makes a segment of documents. Terms must not be empty, longer than 1
// KiB, or begin with a NUL byte, which is where labels are. Entries must differ.
func Build(id uuid.UUID, docs []Document) (Built, error) { return build(id, docs, defaultLayout) }

func build(id uuid.UUID, docs []Document, cut layout) (Built, error) {
	b := builder{terms: map[string]*growing{}}
	for i := range docs {
		if err := b.add(&docs[i]); err != nil {
			return Built{}, fmt.Errorf("building segment %s: document of version %s: %w", id, docs[i].Version, err)
		}
	}
	b.directory.finish()
	if place, twice := b.directory.byID.twice(b.directory.ids); twice {
		return Built{}, fmt.Errorf("building segment %s: entry %s is there twice", id, b.directory.ids[place])
	}
	terms := make([]string, 0, len(b.terms))
	for t := range b.terms {
		terms = append(terms, t)
	}
	slices.Sort(terms)
	w := pageWriter{layout: cut, directory: &b.directory}
	for _, t := range terms {
		l := b.terms[t]
		w.add(t, l.slots, l.frequencies)
	}
	return w.finish(id), nil
}

// growing is a list of postings in the making.
type growing struct{ slots, frequencies []uint32 }

type builder struct {
	directory Directory
	terms     map[string]*growing
}

var errTerm = errors.New("a term that is empty, too long or begins with a NUL byte")

func (b *builder) add(doc *Document) error {
	b.directory.addEntry(doc.Entry, doc.Version, len(doc.Title))
	open := len(b.directory.slotSection) - 1
	if err := b.addTerms(doc.Title); err != nil {
		return err
	}
	if len(doc.Labels) == 0 {
		b.post(OpenTerm, uint32(open))
	}
	for i, label := range doc.Labels {
		if !slices.Contains(doc.Labels[:i], label) {
			b.post(LabelTerm(label), uint32(open))
		}
	}
	total := len(doc.Title)
	for _, section := range doc.Sections {
		b.directory.addSection()
		for _, passage := range section {
			total += len(passage)
			b.directory.addPassage(len(passage))
			if err := b.addTerms(passage); err != nil {
				return err
			}
		}
	}
	if total > maxSlots || len(b.directory.slotSection) > maxSlots {
		return errors.New("more than a segment can hold")
	}
	return nil
}

// addTerms adds the terms of the last slot.
func (b *builder) addTerms(terms []string) error {
	slot := uint32(len(b.directory.slotSection) - 1)
	for _, t := range terms {
		if len(t) == 0 || len(t) > maxTerm || t[0] == 0 {
			return fmt.Errorf("%w: %.40q", errTerm, t)
		}
		b.post(t, slot)
	}
	return nil
}

func (b *builder) post(term string, slot uint32) {
	l := b.terms[term]
	if l == nil {
		l = &growing{}
		// The caller's terms are often pieces of a text that would be kept with them.
		b.terms[strings.Clone(term)] = l
	}
	if n := len(l.slots); n > 0 && l.slots[n-1] == slot {
		l.frequencies[n-1]++
		return
	}
	l.slots = append(l.slots, slot)
	l.frequencies = append(l.frequencies, 1)
}

// finish closes the last page and makes the segment.
func (w *pageWriter) finish(id uuid.UUID) Built {
	w.flush()
	c := w.directory.counts
	stream := w.directory.encode()
	var directory []BuiltPage
	for number := 0; len(stream) > 0; number++ {
		n := min(len(stream), w.layout.target)
		page := binary.AppendUvarint([]byte{kindDirectory}, uint64(number))
		directory = append(directory, BuiltPage{Data: seal(append(page, stream[:n]...))})
		stream = stream[n:]
	}
	built := Built{ID: id, Header: encodeHeader(c, len(directory), w.pages), Documents: c.entries, Passages: c.passages}
	built.Pages = append(directory, w.pages...)
	built.Bytes = int64(len(built.Header))
	for _, p := range built.Pages {
		built.Bytes += int64(len(p.Data))
	}
	return built
}
