package search

// The clusters of the sections of a view's segments, by number.

import (
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

const noCluster = ^uint32(0)

// clusterTable numbers the clusters that have a live section.
type clusterTable struct {
	snapshot *lexical.Clusters
	of       [][]uint32 // by segment and section; noCluster for titles and dead sections
	ids      []uuid.UUID
	lengths  []uint64 // of live sections
	total    uint64
	// postings are the cached postings of terms in all live sections. They are guarded by the lock
	// of the StatisticsCache that has the table.
	postings      map[string][]clusterPosting
	postingsBytes int
}

// minClusterPostings is how many bytes of postings a table may cache in any case. Those of a few
// hundred terms of a large collection need more, so they may have a quarter of the index's cache.
const minClusterPostings = 16 << 20

// clusterPostings returns a term's cached postings.
func (c *StatisticsCache) clusterPostings(t *clusterTable, term string) ([]clusterPosting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, ok := t.postings[term]
	return list, ok
}

// keepClusterPostings caches a term's postings. When the cache is full it is emptied first.
func (c *StatisticsCache) keepClusterPostings(t *clusterTable, term string, list []clusterPosting) {
	size := 8*len(list) + len(term) + 64
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := t.postings[term]; ok {
		return
	}
	before := t.postingsBytes
	if t.postings == nil || t.postingsBytes+size > max(minClusterPostings, c.clusterPostingsLimit) {
		t.postings, t.postingsBytes = map[string][]clusterPosting{}, 0
	}
	t.postings[term] = list
	t.postingsBytes += size
	if c.clusters == t {
		c.bytes += t.postingsBytes - before
	}
}

// clusterTable returns the table of the view's snapshot.
func (c *StatisticsCache) clusterTable(v *View, l *liveEntries) *clusterTable {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clusters == nil || c.clusters.snapshot != v.Clusters {
		if c.clusters != nil {
			c.bytes -= c.clusters.bytes()
		}
		c.clusters = newClusterTable(v, l)
		c.bytes += c.clusters.bytes()
	}
	return c.clusters
}

func newClusterTable(v *View, l *liveEntries) *clusterTable {
	t := &clusterTable{snapshot: v.Clusters, of: make([][]uint32, len(v.Segments))}
	numbers := map[uuid.UUID]uint32{}
	for i, s := range v.Segments {
		d := s.Directory
		own := s.clustersIn(v.Clusters)
		whole := slices.Repeat([]uint32{noCluster}, len(own.ids)) // numbers in the table
		of := make([]uint32, d.Units(segment.ZoomSection))
		for e := range d.Versions {
			isLive := l.live[i] == nil || l.live[i].Has(e)
			for section := d.FirstSection[e]; section < d.FirstSection[e+1]; section++ {
				local := own.of[section]
				if !isLive || local == noCluster {
					of[section] = noCluster
					continue
				}
				number := whole[local]
				if number == noCluster {
					number = t.number(numbers, own.ids[local])
					whole[local] = number
				}
				of[section] = number
				length := uint64(d.Lengths[segment.ZoomSection][section])
				t.lengths[number] += length
				t.total += length
			}
		}
		t.of[i] = of
	}
	return t
}

// number returns the number of a cluster in the table, and adds a new cluster to it.
func (t *clusterTable) number(numbers map[uuid.UUID]uint32, id uuid.UUID) uint32 {
	number, ok := numbers[id]
	if !ok {
		number = uint32(len(t.ids))
		numbers[id] = number
		t.ids = append(t.ids, id)
		t.lengths = append(t.lengths, 0)
	}
	return number
}

// segmentClusters numbers the clusters of a segment's sections, live or dead, so that it changes
// with the clustering only and not with the list of segments.
type segmentClusters struct {
	snapshot *lexical.Clusters
	of       []uint32 // by section; noCluster for titles
	ids      []uuid.UUID
}

// clustersIn returns the clusters of the segment's sections in a snapshot. If the segment belongs
// to an Index, the last result is cached.
func (s *SegmentView) clustersIn(snapshot *lexical.Clusters) *segmentClusters {
	if s.clusters != nil {
		if known := s.clusters.Load(); known != nil && known.snapshot == snapshot {
			return known
		}
	}
	d := s.Directory
	c := &segmentClusters{snapshot: snapshot, of: make([]uint32, d.Units(segment.ZoomSection))}
	numbers := map[uuid.UUID]uint32{}
	for e, version := range d.Versions {
		first := d.FirstSection[e]
		c.of[first] = noCluster
		for section := first + 1; section < d.FirstSection[e+1]; section++ {
			id := snapshot.Of(version, int(section-first)-1)
			number, ok := numbers[id]
			if !ok {
				number = uint32(len(c.ids))
				numbers[id] = number
				c.ids = append(c.ids, id)
			}
			c.of[section] = number
		}
	}
	if s.clusters != nil {
		s.clusters.Store(c)
	}
	return c
}

func (t *clusterTable) bytes() int {
	n := 24*len(t.ids) + t.postingsBytes
	for _, of := range t.of {
		n += 4 * len(of)
	}
	return n
}
