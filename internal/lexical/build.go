package lexical

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

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
	b := newBuilder(docs)
	for i := range docs {
		if err := b.add(&docs[i]); err != nil {
			return Built{}, fmt.Errorf("building segment %s: document of version %s: %w", id, docs[i].Version, err)
		}
	}
	b.directory.finish()
	if place, twice := b.directory.byID.twice(b.directory.ids); twice {
		return Built{}, fmt.Errorf("building segment %s: entry %s is there twice", id, b.directory.ids[place])
	}
	w := pageWriter{layout: cut, directory: &b.directory}
	b.write(&w)
	return w.finish(id), nil
}

// growing is a list of postings in the making.
type growing struct{ slots, frequencies []uint32 }

// builder collects postings in the order of documents, and sorts them by term in
// the end: terms have few postings each, and lists of their own would cost more
// than all the rest.
type builder struct {
	directory Directory
	numbers   map[string]uint32 // of terms
	terms     []builtTerm
	known     []knownTerm // open addressing; a power of two
	free      int         // places of known until it grows
	postings  []builtPosting
}

// builtTerm is a term with its last posting and how many it has.
type builtTerm struct {
	text  string
	last  uint32
	count uint32
}

type builtPosting struct{ term, slot, frequency uint32 }

// knownTerm says which term a string in memory is. An analyser gives the same
// string for a word each time, so most terms are found by where they are.
type knownTerm struct {
	text           *byte // nil: none
	length, number uint32
}

var errTerm = errors.New("a term that is empty, too long or begins with a NUL byte")

const smallestKnown = 1 << 10

func newBuilder(docs []Document) *builder {
	terms := 0
	for i := range docs {
		for _, section := range docs[i].Sections {
			for _, passage := range section {
				terms += len(passage)
			}
		}
	}
	// What a batch of prose has, about: a term for 12 words, in two or three forms.
	known := smallestKnown
	for known < terms/6 {
		known *= 2
	}
	return &builder{
		numbers: make(map[string]uint32, terms/12), known: make([]knownTerm, known), free: known / 2,
		terms: make([]builtTerm, 0, terms/12), postings: make([]builtPosting, 0, terms),
	}
}

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
	number := b.number(term)
	t := &b.terms[number]
	if t.count > 0 && b.postings[t.last].slot == slot {
		b.postings[t.last].frequency++
		return
	}
	t.last = uint32(len(b.postings))
	t.count++
	b.postings = append(b.postings, builtPosting{number, slot, 1})
}

// number is that of a term, a new one the first time.
func (b *builder) number(term string) uint32 {
	text, length := unsafe.StringData(term), uint32(len(term))
	mask := len(b.known) - 1
	at := placeOf(text) & mask
	for ; b.known[at].text != nil; at = (at + 1) & mask {
		if k := &b.known[at]; k.text == text && k.length == length {
			return k.number
		}
	}
	number, ok := b.numbers[term]
	if !ok {
		number = uint32(len(b.terms))
		b.numbers[term] = number
		b.terms = append(b.terms, builtTerm{text: term})
	}
	b.known[at] = knownTerm{text, length, number}
	if b.free--; b.free == 0 {
		b.grow()
	}
	return number
}

// placeOf is made of where a string is in memory, where it stays: it is kept.
func placeOf(text *byte) int {
	return int(uint64(uintptr(unsafe.Pointer(text))) * 0x9e3779b97f4a7c15 >> 33)
}

func (b *builder) grow() {
	before := b.known
	b.known, b.free = make([]knownTerm, 2*len(before)), len(before)/2
	mask := len(b.known) - 1
	for _, k := range before {
		if k.text == nil {
			continue
		}
		at := placeOf(k.text) & mask
		for b.known[at].text != nil {
			at = (at + 1) & mask
		}
		b.known[at] = k
	}
}

// write writes the lists of all terms in their order.
func (b *builder) write(w *pageWriter) {
	type key struct {
		key    uint64
		number uint32
	}
	sorted := make([]key, len(b.terms))
	for i := range b.terms {
		sorted[i] = key{termKey(b.terms[i].text), uint32(i)}
	}
	slices.SortFunc(sorted, func(x, y key) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		return strings.Compare(b.terms[x.number].text, b.terms[y.number].text)
	})
	// A term's postings stay in the order of slots.
	next := uint32(0)
	for _, k := range sorted {
		b.terms[k.number].last = next // where its list goes on
		next += b.terms[k.number].count
	}
	all := growing{make([]uint32, next), make([]uint32, next)}
	for _, p := range b.postings {
		t := &b.terms[p.term]
		all.slots[t.last], all.frequencies[t.last] = p.slot, p.frequency
		t.last++
	}
	for _, k := range sorted {
		t := &b.terms[k.number]
		w.add(t.text, all.slots[t.last-t.count:t.last], all.frequencies[t.last-t.count:t.last])
	}
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
