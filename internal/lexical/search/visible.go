package search

// What a principal may see: entries that are live, permitted and matched by the filter.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// Bits is a set of small numbers.
type Bits []uint64

func fullBits(n int) Bits {
	b := make(Bits, (n+63)/64)
	for i := range b {
		b[i] = ^uint64(0)
	}
	if n%64 != 0 {
		b[len(b)-1] = 1<<(n%64) - 1
	}
	return b
}

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// Count is the number of members.
func (b Bits) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (b Bits) add(i int)    { b[i>>6] |= 1 << (i & 63) }
func (b Bits) remove(i int) { b[i>>6] &^= 1 << (i & 63) }

// next returns the first member at or after i; n, the size of the set's range, if there is none.
func (b Bits) next(i, n int) int {
	for i < n {
		if w := b[i>>6] >> (i & 63); w != 0 {
			return min(i+bits.TrailingZeros64(w), n)
		}
		i = i&^63 + 64
	}
	return n
}

// nextAbsent returns the first number at or after i that is not a member; at most n.
func (b Bits) nextAbsent(i, n int) int {
	for i < n {
		if w := ^b[i>>6] >> (i & 63); w != 0 {
			return min(i+bits.TrailingZeros64(w), n)
		}
		i = i&^63 + 64
	}
	return n
}

// Visible returns for each segment of the view the entries that are live, permitted to groups and
// matched by a filter. The sets must not be changed. The view must have the pages of
// NeedsOfGroups(groups), and must have been opened for the filter.
func (v *View) Visible(groups []string, f schema.Filter) ([]Bits, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	c := v.cache()
	return v.visible(c, c.liveEntriesOf(v), groups, nil, f, true)
}

// check reports segments without a directory.
func (v *View) check() error {
	for _, s := range v.Segments {
		if s.Header == nil || s.Directory == nil {
			return errors.New("a view's segment lacks its header or its directory")
		}
	}
	return nil
}

// visible is Visible restricted to versions, if that is not nil. Sets of all entries are nil unless
// whole is set. The sets must not be changed.
func (v *View) visible(c *StatisticsCache, l *liveEntries, groups []string, versions *lexical.Versions, f schema.Filter, whole bool) ([]Bits, error) {
	if len(f) > 0 {
		if err := v.filtered(f); err != nil {
			return nil, err
		}
	}
	to := groupsKey(groups)
	sets := v.visibleSets
	if sets == nil || v.visibleKey != to {
		if sets = c.cachedVisible(to); sets == nil {
			var err error
			if sets, err = v.visibleTo(l, groups); err != nil {
				return nil, err
			}
			c.cacheVisible(to, sets)
		}
	}
	if versions == nil && len(f) == 0 && !whole {
		return sets, nil
	}
	out := make([]Bits, len(sets))
	for i, set := range sets {
		if versions != nil {
			set = among(v.Segments[i].Directory, set, versions)
		}
		if len(f) > 0 {
			set = v.narrow(i, set)
		}
		if set == nil {
			set = fullBits(v.Segments[i].Directory.Len())
		}
		out[i] = set
	}
	return out, nil
}

// visibleTo returns the entries that are live and permitted to groups; nil means all.
func (v *View) visibleTo(l *liveEntries, groups []string) ([]Bits, error) {
	sets := make([]Bits, len(v.Segments))
	labels := NeedsOfGroups(groups)
	var c cursor
	for i := range v.Segments {
		set, err := v.Segments[i].permitted(&c, labels)
		if err != nil {
			return nil, err
		}
		if live := l.live[i]; set == nil {
			set = live
		} else if live != nil {
			for w := range set {
				set[w] &= live[w]
			}
		}
		sets[i] = set
	}
	return sets, nil
}

// groupsKey returns a string that is equal only for equal groups.
func groupsKey(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	var key []byte
	for _, g := range groups {
		key = append(binary.AppendUvarint(key, uint64(len(g))), g...)
	}
	return string(key)
}

// permitted returns the entries that have one of the labels; nil means all.
func (s *SegmentView) permitted(c *cursor, labels []string) (Bits, error) {
	if s.Entries == 0 {
		return nil, nil
	}
	var set Bits
	for _, label := range labels {
		if err := c.lists.find(s, label, segment.TermKey(label)); err != nil {
			return nil, fmt.Errorf("reading who may see: %w", err)
		}
		if len(c.lists.parts) == 0 {
			continue
		}
		if int(c.lists.parts[0].Postings) == s.Entries {
			return nil, nil
		}
		if set == nil {
			set = make(Bits, (s.Entries+63)/64)
		}
		for _, l := range c.lists.parts {
			for i := range l.Blocks {
				if !l.Read(&l.Blocks[i], &c.buffer) {
					return nil, fmt.Errorf("segment %s: %w: a block of labels", s.ID, segment.ErrCorrupt)
				}
				for _, slot := range c.buffer.Slots[:c.buffer.N] {
					set.add(int(s.Directory.SlotEntry[slot]))
				}
			}
		}
	}
	if set == nil {
		set = make(Bits, (s.Entries+63)/64)
	}
	return set, nil
}

// among returns the members of set whose version is one of versions; nil is the set of all entries.
func among(d *segment.Directory, set Bits, versions *lexical.Versions) Bits {
	kept := make(Bits, (d.Len()+63)/64)
	keep := func(e int) {
		if set == nil || set.Has(e) {
			kept.add(e)
		}
	}
	if versions.Len() > d.Len() {
		for e, version := range d.Versions {
			if versions.Has(version) {
				keep(e)
			}
		}
		return kept
	}
	for version := range versions.All() {
		d.EachEntryOf(version, keep)
	}
	return kept
}
