package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
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
// KiB, or begin with a byte 0 or 1, which is where labels and the field of
// identity are. Entries must differ.
func Build(id uuid.UUID, docs []VersionText) (Built, error) { return DefaultLayout.Build(id, docs) }

// Build makes a segment of documents that is cut as the layout says.
func (cut Layout) Build(id uuid.UUID, docs []VersionText) (Built, error) {
	b := newBuilder(docs)
	defer b.close()
	for i := range docs {
		if err := b.add(&docs[i]); err != nil {
			return Built{}, fmt.Errorf("building segment %s: document of version %s: %w", id, docs[i].Version, err)
		}
	}
	b.directory.finish()
	if place, twice := b.directory.byID.twice(b.directory.IDs); twice {
		return Built{}, fmt.Errorf("building segment %s: entry %s is there twice", id, b.directory.IDs[place])
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
	*scratch
}

// scratch is the memory of a builder. The next one uses it again.
type scratch struct {
	terms         []builtTerm
	places        []termPlace // of terms, by hash: open addressing; a power of two
	postings      []builtPosting
	sorted, spare []sortedTerm
	all           growing
}

// builtTerm is a term with its last posting, the slot of that, and how many it has.
type builtTerm struct {
	text  string
	last  uint32
	count uint32
	slot  uint32
}

type builtPosting struct{ term, slot, frequency uint32 }

// termPlace is a term's place in a hash table; number is one more than the term's,
// and 0 where the place is free.
type termPlace struct{ hash, number uint32 }

var (
	errTerm = errors.New("a term that is empty, too long or begins with a byte 0 or 1")

	// scratches are those that no builder uses: a few, and not a pool's, which loses
	// them when memory is collected, as between any two batches of ingestion.
	scratches = make(chan *scratch, keptScratches)
	hashSeed  = maphash.MakeSeed()
)

const (
	fewestPlaces = 1 << 12
	// keptPostings bounds what is kept for the next builder, 20 MB or so at most.
	keptPostings  = 1 << 20
	keptScratches = 2
)

func newBuilder(docs []VersionText) *builder {
	terms := 0
	for i := range docs {
		for _, section := range docs[i].Sections {
			for _, passage := range section {
				terms += len(passage)
			}
		}
	}
	b := &builder{}
	select {
	case b.scratch = <-scratches:
	default:
		b.scratch = &scratch{places: make([]termPlace, fewestPlaces)}
	}
	b.postings = slices.Grow(b.postings, terms)
	return b
}

// close gives the memory back. No text is held by what is kept.
func (b *builder) close() {
	s := b.scratch
	b.scratch = nil
	if cap(s.postings) > keptPostings {
		return
	}
	clear(s.places)
	clear(s.terms)
	s.terms, s.postings = s.terms[:0], s.postings[:0]
	select {
	case scratches <- s:
	default: // there are enough
	}
}

func (b *builder) add(doc *VersionText) error {
	b.directory.addEntry(doc.Entry, doc.Version, len(doc.Title))
	open := len(b.directory.SlotSection) - 1
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
	for _, term := range doc.Identity {
		if len(term) >= lexical.MaxTerm {
			return fmt.Errorf("%w: %.40q", errTerm, term)
		}
		b.post(IdentityTerm(term), uint32(open))
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
	if total > maxSlots || len(b.directory.SlotSection) > maxSlots {
		return errors.New("more than a segment can hold")
	}
	return nil
}

// addTerms adds the terms of the last slot.
func (b *builder) addTerms(terms []string) error {
	slot := uint32(len(b.directory.SlotSection) - 1)
	for _, t := range terms {
		if len(t) == 0 || len(t) > lexical.MaxTerm || t[0] <= 1 {
			return fmt.Errorf("%w: %.40q", errTerm, t)
		}
		b.post(t, slot)
	}
	return nil
}

func (b *builder) post(term string, slot uint32) {
	number := b.number(term)
	t := &b.terms[number]
	if t.count > 0 && t.slot == slot {
		b.postings[t.last].frequency++
		return
	}
	t.last, t.slot = uint32(len(b.postings)), slot
	t.count++
	b.postings = append(b.postings, builtPosting{number, slot, 1})
}

// number is that of a term, a new one the first time.
func (b *builder) number(term string) uint32 {
	hash := uint32(maphash.String(hashSeed, term))
	mask := uint32(len(b.places) - 1)
	at := hash & mask
	for ; b.places[at].number != 0; at = (at + 1) & mask {
		if p := b.places[at]; p.hash == hash && b.terms[p.number-1].text == term {
			return p.number - 1
		}
	}
	b.terms = append(b.terms, builtTerm{text: term})
	number := uint32(len(b.terms))
	b.places[at] = termPlace{hash, number}
	if 2*len(b.terms) > len(b.places) {
		b.grow()
	}
	return number - 1
}

func (b *builder) grow() {
	before := b.places
	b.places = make([]termPlace, 4*len(before))
	mask := uint32(len(b.places) - 1)
	for _, p := range before {
		if p.number == 0 {
			continue
		}
		at := p.hash & mask
		for b.places[at].number != 0 {
			at = (at + 1) & mask
		}
		b.places[at] = p
	}
}

// write writes the lists of all terms in their order.
func (b *builder) write(w *pageWriter) {
	b.sort()
	// A term's postings stay in the order of slots.
	next := uint32(0)
	for _, k := range b.sorted {
		b.terms[k.number].last = next // where its list goes on
		next += b.terms[k.number].count
	}
	all := growing{slices.Grow(b.all.slots[:0], int(next))[:next], slices.Grow(b.all.frequencies[:0], int(next))[:next]}
	b.all = all
	for _, p := range b.postings {
		t := &b.terms[p.term]
		all.slots[t.last], all.frequencies[t.last] = p.slot, p.frequency
		t.last++
	}
	for _, k := range b.sorted {
		t := &b.terms[k.number]
		w.add(t.text, all.slots[t.last-t.count:t.last], all.frequencies[t.last-t.count:t.last])
	}
}

// sortedTerm is a term by its key, the first bytes of its text.
type sortedTerm struct {
	key    uint64
	number uint32
}

// sort puts terms in their order: by key, a byte at a time from the last, and
// those of the same key by the rest of their text.
func (b *builder) sort() {
	from := slices.Grow(b.sorted[:0], len(b.terms))[:len(b.terms)]
	to := slices.Grow(b.spare[:0], len(b.terms))[:len(b.terms)]
	var counts [8][256]uint32
	for i := range b.terms {
		key := TermKey(b.terms[i].text)
		from[i] = sortedTerm{key, uint32(i)}
		for n := range counts {
			counts[n][byte(key>>(8*n))]++
		}
	}
	for n := range counts {
		count := &counts[n]
		if len(from) == 0 || count[byte(from[0].key>>(8*n))] == uint32(len(from)) {
			continue // all have the same byte there
		}
		next := uint32(0)
		for c := range count {
			count[c], next = next, next+count[c]
		}
		for _, t := range from {
			c := byte(t.key >> (8 * n))
			to[count[c]] = t
			count[c]++
		}
		from, to = to, from
	}
	for i := 0; i < len(from); {
		end := i + 1
		for end < len(from) && from[end].key == from[i].key {
			end++
		}
		if end > i+1 {
			slices.SortFunc(from[i:end], func(x, y sortedTerm) int {
				return strings.Compare(b.terms[x.number].text, b.terms[y.number].text)
			})
		}
		i = end
	}
	b.sorted, b.spare = from, to
}

// finish closes the last page and makes the segment.
func (w *pageWriter) finish(id uuid.UUID) Built {
	w.flush()
	c := w.directory.counts
	stream := w.directory.encode()
	var directory []BuiltPage
	for number := 0; len(stream) > 0; number++ {
		n := min(len(stream), w.layout.Target)
		page := binary.AppendUvarint([]byte{kindDirectory}, uint64(number))
		directory = append(directory, BuiltPage{Data: seal(append(page, stream[:n]...))})
		stream = stream[n:]
	}
	built := Built{ID: id, Header: encodeHeader(c, len(directory), w.pages), Documents: c.Entries, Passages: c.Passages}
	built.Pages = append(directory, w.pages...)
	built.Bytes = int64(len(built.Header))
	for _, p := range built.Pages {
		built.Bytes += int64(len(p.Data))
	}
	return built
}
