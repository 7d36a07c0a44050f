package search

// The entries that satisfy a condition, by segment, and how these sets are made from cached ones
// and from replies of the storage.

import (
	"math/bits"
	"slices"

	"github.com/google/uuid"
)

// entrySet is a set of a segment's entries: a list if there are few.
type entrySet struct {
	list []uint32 // ascending
	bits Bits     // nil: list has the members
}

// newEntrySet packs a set.
func newEntrySet(set Bits) entrySet {
	n := set.Count()
	if 32*n >= 64*len(set) {
		return entrySet{bits: set}
	}
	list := make([]uint32, 0, n)
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			list = append(list, uint32(w<<6+bits.TrailingZeros64(word)))
		}
	}
	return entrySet{list: list}
}

func (s entrySet) bytes() int { return 4*len(s.list) + 8*len(s.bits) + 48 }

func (s entrySet) has(e int) bool {
	if s.bits != nil {
		return s.bits.Has(e)
	}
	_, ok := slices.BinarySearch(s.list, uint32(e))
	return ok
}

// intersects reports whether a member is in set; nil is the set of all entries.
func (s entrySet) intersects(set Bits) bool {
	if s.bits != nil {
		for w := range s.bits {
			if s.bits[w]&set.word(w) != 0 {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(s.list, func(e uint32) bool { return set == nil || set.Has(int(e)) })
}

// of returns the intersection of set and s; nil is the set of all n entries.
func (s entrySet) of(set Bits, n int) Bits {
	out := make(Bits, (n+63)/64)
	if s.bits != nil {
		for w := range out {
			out[w] = s.bits[w] & set.word(w)
		}
		return out
	}
	for _, e := range s.list {
		if set == nil || set.Has(int(e)) {
			out.add(int(e))
		}
	}
	return out
}

// word returns a word of the set; nil is the set of all numbers.
func (b Bits) word(w int) uint64 {
	if b == nil {
		return ^uint64(0)
	}
	return b[w]
}

// matched has the entries of a segment that satisfy a condition.
type matched struct {
	segment uuid.UUID
	entrySet
	// unknown are the entries that were dead when the condition was evaluated. If the database is
	// restored to an older state, they may be live again.
	unknown entrySet
}

// conditionSets are the sets of a condition for the segments that a collection had at the last
// search. They are immutable.
type conditionSets struct {
	text     string // of the condition
	segments []matched
}

func (s *conditionSets) bytes() int {
	n := len(s.text) + 48
	for i := range s.segments {
		n += s.segments[i].bytes() + s.segments[i].unknown.bytes() + 16
	}
	return n
}

// find returns the sets of a segment; near is its likely index.
func (s *conditionSets) find(id uuid.UUID, near int) *matched {
	if s == nil {
		return nil
	}
	if near < len(s.segments) && s.segments[near].segment == id {
		return &s.segments[near]
	}
	at, ok := slices.BinarySearchFunc(s.segments, id, func(m matched, id uuid.UUID) int { return compareIDs(m.segment, id) })
	if !ok {
		return nil
	}
	return &s.segments[at]
}

// covers reports whether the sets are of exactly the view's segments and know all live entries.
func (s *conditionSets) covers(v *View, l *liveEntries) bool {
	if s == nil || len(s.segments) != len(v.Segments) {
		return false
	}
	for i := range s.segments {
		if s.segments[i].segment != v.Segments[i].ID || s.segments[i].unknown.intersects(l.live[i]) {
			return false
		}
	}
	return true
}

// unfinishedSets are the sets of a condition while they are being made, by segment of a view.
type unfinishedSets struct {
	number    int        // of the condition
	known     []*matched // cached ones; nil: the segment is new
	sets      []Bits
	inherited []Bits // entries of new segments that are known from merged segments
	ask       []uuid.UUID
}

// beginSets makes what can be made from the cached sets, and lists the versions to ask the storage
// for.
func (x *Index) beginSets(tenant uuid.UUID, v *View, l *liveEntries, known *conditionSets) *unfinishedSets {
	n := len(v.Segments)
	u := &unfinishedSets{known: make([]*matched, n), sets: make([]Bits, n), inherited: make([]Bits, n)}
	var unseen []int // segments
	seen := map[uuid.UUID]bool{}
	for i, s := range v.Segments {
		if m := known.find(s.ID, i); m != nil && !m.unknown.intersects(l.live[i]) {
			u.known[i] = m
			seen[s.ID] = true
			continue
		}
		unseen = append(unseen, i)
		words := (s.Directory.Len() + 63) / 64
		u.sets[i], u.inherited[i] = make(Bits, words), make(Bits, words)
	}
	if known == nil {
		return u
	}
	for i := range known.segments {
		if m := &known.segments[i]; !seen[m.segment] {
			x.carryOver(tenant, m, v, unseen, u)
		}
	}
	for _, i := range unseen {
		for e, version := range v.Segments[i].Directory.Versions {
			if !u.inherited[i].Has(e) && (l.live[i] == nil || l.live[i].Has(e)) {
				u.ask = append(u.ask, version)
			}
		}
	}
	return u
}

// carryOver copies what is known of a segment's entries to the segments of a view that they were
// merged into.
func (x *Index) carryOver(tenant uuid.UUID, m *matched, v *View, into []int, u *unfinishedSets) {
	x.cache.mu.Lock()
	open, _ := x.cache.peek(partKey{tenant, m.segment, partSegment}).(*openSegment)
	x.cache.mu.Unlock()
	if open == nil {
		return // it is not in the cache, so the storage is asked
	}
	for from, id := range open.directory.IDs {
		if m.unknown.has(from) {
			continue
		}
		for _, i := range into {
			if e, ok := v.Segments[i].Directory.EntryByID(id); ok {
				u.inherited[i].add(e)
				if m.has(from) {
					u.sets[i].add(e)
				}
			}
		}
	}
}

// finish adds the versions that satisfy the condition, according to the storage.
func (u *unfinishedSets) finish(v *View, l *liveEntries, matching []uuid.UUID) *conditionSets {
	out := &conditionSets{segments: make([]matched, len(v.Segments))}
	for i, s := range v.Segments {
		if u.known[i] != nil {
			out.segments[i] = *u.known[i]
			continue
		}
		set, inherited, live := u.sets[i], u.inherited[i], l.live[i]
		add := func(e int) {
			if !inherited.Has(e) {
				set.add(e)
			}
		}
		for _, version := range matching {
			s.Directory.EachEntryOf(version, add)
		}
		unknown := make(Bits, len(set))
		if live != nil {
			for w := range unknown {
				unknown[w] = ^live[w] &^ inherited[w]
				set[w] &^= unknown[w]
			}
			if n := s.Directory.Len(); n%64 != 0 {
				unknown[len(unknown)-1] &= 1<<(n%64) - 1
			}
		}
		out.segments[i] = matched{segment: s.ID, entrySet: newEntrySet(set), unknown: newEntrySet(unknown)}
	}
	return out
}
