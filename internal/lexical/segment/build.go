package segment

// Building of a segment from documents: postings are collected in the order of documents, sorted by
// term, and written as pages (pagewriter.go).

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// Built is a new segment, ready to be stored. Pages are numbered from 0 in their order.
type Built struct {
	ID        uuid.UUID
	Header    []byte
	Pages     []BuiltPage
	Documents int // entries
	Passages  int
	Bytes     int64 // of header and pages
}

// BuiltPage is a page with its first and last term; both are empty in pages of the directory.
type BuiltPage struct {
	First, Last string
	Data        []byte
}

// Build makes a segment of documents. Terms must not be empty, longer than lexical.MaxTerm bytes,
// or begin with a byte 0 or 1, which are for labels and the identity field. Entries must differ.
func Build(id uuid.UUID, docs []VersionText) (Built, error) { return DefaultLayout.Build(id, docs) }

// Build makes a segment of documents in a layout.
func (layout Layout) Build(id uuid.UUID, docs []VersionText) (Built, error) {
	b := newBuilder(docs)
	defer b.close()
	for i := range docs {
		if err := b.add(&docs[i]); err != nil {
			return Built{}, fmt.Errorf("building segment %s: version %s: %w", id, docs[i].Version, err)
		}
	}
	b.directory.finish()
	if entry, found := b.directory.byID.duplicate(b.directory.IDs); found {
		return Built{}, fmt.Errorf("building segment %s: duplicate entry %s", id, b.directory.IDs[entry])
	}
	w := pageWriter{layout: layout, directory: &b.directory}
	b.writeLists(&w)
	return w.finish(id), nil
}

// postingList is a list of postings that is not encoded.
type postingList struct{ slots, frequencies []uint32 }

// builder collects all postings in one slice and sorts them by term at the end: most terms have few
// postings, so a slice for each term would cost more than everything else.
type builder struct {
	directory Directory
	*builderBuffers
}

// builderBuffers are the buffers of a builder, which later builders reuse.
type builderBuffers struct {
	terms         []indexedTerm
	buckets       []bucket // hash table of terms, with open addressing; the length is a power of two
	postings      []rawPosting
	sorted, spare []keyedTerm
	all           postingList
}

// indexedTerm is a term with the index and the slot of its last posting, and the number of its
// postings.
type indexedTerm struct {
	text  string
	last  uint32
	count uint32
	slot  uint32
}

type rawPosting struct{ term, slot, frequency uint32 }

// bucket is a bucket of the hash table: a term's hash and one more than its index, or 0 where the
// bucket is free.
type bucket struct{ hash, number uint32 }

var (
	errTerm = errors.New("a term that is empty, too long or begins with a byte 0 or 1")

	// bufferPool is a channel, not a sync.Pool: that would be emptied by the garbage collector
	// between any two batches.
	bufferPool = make(chan *builderBuffers, poolSize)
	hashSeed   = maphash.MakeSeed()
)

const (
	minBuckets = 1 << 12
	// maxReusedPostings limits the size of buffers that are reused, to about 20 MB.
	maxReusedPostings = 1 << 20
	poolSize          = 2
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
	case b.builderBuffers = <-bufferPool:
	default:
		b.builderBuffers = &builderBuffers{buckets: make([]bucket, minBuckets)}
	}
	b.postings = slices.Grow(b.postings, terms)
	return b
}

// close puts the buffers back into the pool, without references to the text.
func (b *builder) close() {
	s := b.builderBuffers
	b.builderBuffers = nil
	if cap(s.postings) > maxReusedPostings {
		return
	}
	clear(s.buckets)
	clear(s.terms)
	s.terms, s.postings = s.terms[:0], s.postings[:0]
	select {
	case bufferPool <- s:
	default: // the pool is full
	}
}

func (b *builder) add(doc *VersionText) error {
	b.directory.addEntry(doc.Entry, doc.Version, len(doc.Title))
	titleSlot := uint32(len(b.directory.SlotSection) - 1)
	if err := b.addTerms(doc.Title); err != nil {
		return err
	}
	if len(doc.Labels) == 0 {
		b.addPosting(OpenTerm, titleSlot)
	}
	for i, label := range doc.Labels {
		if !slices.Contains(doc.Labels[:i], label) {
			b.addPosting(LabelTerm(label), titleSlot)
		}
	}
	for _, term := range doc.Identity {
		if len(term) >= lexical.MaxTerm {
			return fmt.Errorf("%w: %.40q", errTerm, term)
		}
		b.addPosting(IdentityTerm(term), titleSlot)
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
		return fmt.Errorf("more than %d terms or passages", maxSlots)
	}
	return nil
}

// addTerms adds terms to the last slot.
func (b *builder) addTerms(terms []string) error {
	slot := uint32(len(b.directory.SlotSection) - 1)
	for _, t := range terms {
		if len(t) == 0 || len(t) > lexical.MaxTerm || t[0] <= 1 {
			return fmt.Errorf("%w: %.40q", errTerm, t)
		}
		b.addPosting(t, slot)
	}
	return nil
}

func (b *builder) addPosting(term string, slot uint32) {
	number := b.termIndex(term)
	t := &b.terms[number]
	if t.count > 0 && t.slot == slot {
		b.postings[t.last].frequency++
		return
	}
	t.last, t.slot = uint32(len(b.postings)), slot
	t.count++
	b.postings = append(b.postings, rawPosting{number, slot, 1})
}

// termIndex returns the index of a term in b.terms, to which it adds new terms.
func (b *builder) termIndex(term string) uint32 {
	hash := uint32(maphash.String(hashSeed, term))
	mask := uint32(len(b.buckets) - 1)
	at := hash & mask
	for ; b.buckets[at].number != 0; at = (at + 1) & mask {
		if p := b.buckets[at]; p.hash == hash && b.terms[p.number-1].text == term {
			return p.number - 1
		}
	}
	b.terms = append(b.terms, indexedTerm{text: term})
	b.buckets[at] = bucket{hash, uint32(len(b.terms))}
	if 2*len(b.terms) > len(b.buckets) {
		b.rehash()
	}
	return uint32(len(b.terms) - 1)
}

func (b *builder) rehash() {
	before := b.buckets
	b.buckets = make([]bucket, 4*len(before))
	mask := uint32(len(b.buckets) - 1)
	for _, p := range before {
		if p.number == 0 {
			continue
		}
		at := p.hash & mask
		for b.buckets[at].number != 0 {
			at = (at + 1) & mask
		}
		b.buckets[at] = p
	}
}

// writeLists writes the posting lists of all terms, in the order of terms.
func (b *builder) writeLists(w *pageWriter) {
	b.sort()
	// A counting sort by term: it keeps each term's postings in the order of slots. From here on
	// last is the end of what has been copied of a term's list.
	next := uint32(0)
	for _, k := range b.sorted {
		b.terms[k.number].last = next
		next += b.terms[k.number].count
	}
	all := postingList{slices.Grow(b.all.slots[:0], int(next))[:next], slices.Grow(b.all.frequencies[:0], int(next))[:next]}
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

// keyedTerm is a term with its TermKey, the first bytes of its text.
type keyedTerm struct {
	key    uint64
	number uint32
}

// sort sorts the terms: a radix sort by key, then by text where keys are equal.
func (b *builder) sort() {
	from := slices.Grow(b.sorted[:0], len(b.terms))[:len(b.terms)]
	to := slices.Grow(b.spare[:0], len(b.terms))[:len(b.terms)]
	var counts [8][256]uint32
	for i := range b.terms {
		key := TermKey(b.terms[i].text)
		from[i] = keyedTerm{key, uint32(i)}
		for n := range counts {
			counts[n][byte(key>>(8*n))]++
		}
	}
	for n := range counts {
		count := &counts[n]
		if len(from) == 0 || count[byte(from[0].key>>(8*n))] == uint32(len(from)) {
			continue // all terms have the same byte here
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
			slices.SortFunc(from[i:end], func(x, y keyedTerm) int {
				return strings.Compare(b.terms[x.number].text, b.terms[y.number].text)
			})
		}
		i = end
	}
	b.sorted, b.spare = from, to
}
