package search

// This file evaluates filters. For each condition the cache has the entries whose metadata satisfy
// it, by segment. This stays true while the entry is live, because a document whose metadata change
// is indexed again. So a search asks the storage only about newer entries; entries of a merged
// segment are known from the segments that it was merged from. The sets do not depend on the
// principal: labels are checked separately.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// maxAskedIDs is the most versions that the storage is asked about by id. If there are more, it is
// asked for all versions of the collection that satisfy the condition.
const maxAskedIDs = 10_000

// linksKey is the metadata that may change without the document being indexed again, since it is
// not part of what the document is called.
const linksKey = "links"

// Match is a request for the versions that satisfy a condition.
type Match struct {
	Condition schema.Condition
	Number    int         // of the condition in its filter, from 0, for errors
	All       bool        // search all live versions of the collection
	Versions  []uuid.UUID // else only these; may be empty
}

// conditionText returns a text that is equal for conditions that the same versions satisfy.
func conditionText(c schema.Condition) string {
	op, values := c.Op, c.Values
	if op == schema.OpEq {
		op = schema.OpIn
	}
	if op == schema.OpIn {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	var out []byte
	for _, part := range append([]string{c.Key, string(op)}, values...) {
		out = append(binary.AppendUvarint(out, uint64(len(part))), part...)
	}
	return string(out)
}

// conditionKey returns the cache key of a condition's sets.
func conditionKey(tenant, collection uuid.UUID, text string) partKey {
	sum := sha256.Sum256(append(collection[:], text...))
	return partKey{tenant, uuid.UUID(sum[:16]), partCondition}
}

// conditions are the conditions of a filter with their keys in the cache.
type conditions struct {
	filter schema.Filter
	texts  []string
	keys   []partKey
}

func conditionsOf(tenant, collection uuid.UUID, f schema.Filter) conditions {
	c := conditions{filter: f, texts: make([]string, len(f)), keys: make([]partKey, len(f))}
	for i := range f {
		c.texts[i] = conditionText(f[i])
		c.keys[i] = conditionKey(tenant, collection, c.texts[i])
	}
	return c
}

// conditionSets returns the cached sets of a condition; nil if there are none. The caller holds
// x.cache.mu.
func (x *Index) conditionSets(c conditions, i int) *conditionSets {
	if c.filter[i].Key == linksKey {
		return nil
	}
	s, _ := x.cache.peek(c.keys[i]).(*conditionSets)
	if s == nil || s.text != c.texts[i] {
		return nil
	}
	return s
}

// filterFromCache evaluates a filter for a view from the cache alone; ok is false if the cache does
// not have all of it.
func (x *Index) filterFromCache(tenant, collection uuid.UUID, v *View, f schema.Filter) (ok bool) {
	if len(f) == 0 {
		return true
	}
	c := conditionsOf(tenant, collection, f)
	sets := make([]*conditionSets, len(f))
	l := v.cache().liveEntriesOf(v)
	x.cache.mu.Lock()
	for i := range f {
		sets[i] = x.conditionSets(c, i)
	}
	x.cache.mu.Unlock()
	for _, s := range sets {
		if !s.covers(v, l) {
			return false
		}
	}
	x.cache.mu.Lock()
	x.cache.stats.Filters.Hits += int64(len(f))
	x.cache.mu.Unlock()
	v.filter, v.conditions = f, sets
	return true
}

// loadFilter evaluates a filter for a view. It loads what is not in the cache with one call of the
// storage. If several searches miss the same sets, one of them loads them.
func (x *Index) loadFilter(ctx context.Context, tenant, collection uuid.UUID, v *View, f schema.Filter) error {
	if len(f) == 0 {
		return nil
	}
	c := conditionsOf(tenant, collection, f)
	l := v.cache().liveEntriesOf(v)
	waited := map[partKey]bool{}
	for {
		since := x.finishedLoads()
		sets := make([]*conditionSets, len(f))
		x.cache.mu.Lock()
		for i := range f {
			sets[i] = x.conditionSets(c, i)
		}
		x.cache.mu.Unlock()
		var missing []partKey
		for i := range f {
			if !sets[i].covers(v, l) {
				missing = append(missing, c.keys[i])
			}
		}
		x.cache.mu.Lock()
		x.cache.stats.Filters.Hits += int64(len(f) - len(missing))
		x.cache.mu.Unlock()
		if len(missing) > 0 {
			wait, end := x.claimLoads(missing, since, waited)
			if wait != nil {
				select {
				case <-wait:
					continue
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := x.match(ctx, tenant, collection, v, l, c, sets, end); err != nil {
				return fmt.Errorf("apply the filter: %w", err)
			}
		}
		v.filter, v.conditions = f, sets
		return nil
	}
}

// match replaces those of the sets that do not cover the view, and calls end.
func (x *Index) match(ctx context.Context, tenant, collection uuid.UUID, v *View, l *liveEntries, c conditions, sets []*conditionSets, end func()) error {
	defer end()
	var query []Match
	var open []*unfinishedSets // by what is asked
	for i, known := range sets {
		if known.covers(v, l) {
			continue
		}
		u := x.beginSets(tenant, v, l, known)
		u.number = i
		query = append(query, Match{Condition: c.filter[i], Number: i, All: known == nil || len(u.ask) > maxAskedIDs, Versions: u.ask})
		open = append(open, u)
	}
	matching, err := x.storage.MatchLexical(ctx, tenant, collection, query)
	if err != nil {
		return err
	}
	for i, u := range open {
		finished := u.finish(v, l, matching[i])
		finished.text = c.texts[u.number]
		sets[u.number] = finished
		if c.filter[u.number].Key != linksKey {
			x.cache.put(c.keys[u.number], finished, finished.bytes())
		}
	}
	x.cache.mu.Lock()
	x.cache.stats.Filters.Misses += int64(len(open))
	x.cache.mu.Unlock()
	return nil
}

// narrow returns the members of set that the filter matches; nil is the set of all entries of the
// segment.
func (v *View) narrow(segment int, set Bits) Bits {
	n := v.Segments[segment].Directory.Len()
	for _, c := range v.conditions {
		set = c.segments[segment].of(set, n)
	}
	return set
}

// filtered returns an error unless the view was opened for the filter.
func (v *View) filtered(f schema.Filter) error {
	if !slices.EqualFunc(v.filter, f, func(a, b schema.Condition) bool {
		return a.Key == b.Key && a.Op == b.Op && slices.Equal(a.Values, b.Values)
	}) {
		return errors.New("a search with a filter that it was not opened for")
	}
	return nil
}

// passes reports whether a version matches the filter that the view was opened for.
func (v *View) passes(version uuid.UUID) bool {
	for i, s := range v.Segments {
		for _, e := range s.Directory.EntriesOf(version) {
			if !v.Dead[s.Directory.IDs[e]] {
				return !slices.ContainsFunc(v.conditions, func(c *conditionSets) bool { return !c.segments[i].has(e) })
			}
		}
	}
	return false
}
