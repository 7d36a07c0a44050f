package lexical

// Which cluster the sections of a view's segments are in, by number.

import "github.com/google/uuid"

const noCluster = ^uint32(0)

// clusterTable numbers the clusters that have a living section.
type clusterTable struct {
	snapshot *Clusters
	of       [][]uint32 // by segment and section; noCluster for titles and what is dead
	ids      []uuid.UUID
	lengths  []uint64 // of living sections
	total    uint64
	// postings are those of terms in all living sections. The lock of the cache
	// that keeps the table is theirs.
	postings      map[string][]clusterPosting
	postingsBytes int
}

// maxClusterPostings is how many bytes a table's remembered postings take at
// most.
const maxClusterPostings = 16 << 20

// clusterPostings returns a term's remembered postings.
func (c *StatisticsCache) clusterPostings(t *clusterTable, term string) ([]clusterPosting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, ok := t.postings[term]
	return list, ok
}

// keepClusterPostings remembers a term's postings, and begins anew where there
// are too many.
func (c *StatisticsCache) keepClusterPostings(t *clusterTable, term string, list []clusterPosting) {
	size := 8*len(list) + len(term) + 64
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := t.postings[term]; ok {
		return
	}
	before := t.postingsBytes
	if t.postings == nil || t.postingsBytes+size > maxClusterPostings {
		t.postings, t.postingsBytes = map[string][]clusterPosting{}, 0
	}
	t.postings[term] = list
	t.postingsBytes += size
	if c.clusters == t {
		c.bytes += t.postingsBytes - before
	}
}

// clusterTable returns the table of the view's snapshot.
func (c *StatisticsCache) clusterTable(v *View, l *life) *clusterTable {
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

func newClusterTable(v *View, l *life) *clusterTable {
	t := &clusterTable{snapshot: v.Clusters, of: make([][]uint32, len(v.Segments))}
	numbers := map[uuid.UUID]uint32{}
	for i, s := range v.Segments {
		d := s.Directory
		of := make([]uint32, d.units(zoomSection))
		for e, version := range d.versions {
			lives := l.living[i] == nil || l.living[i].Has(e)
			first := d.firstSection[e]
			for section := first; section < d.firstSection[e+1]; section++ {
				if !lives || section == first {
					of[section] = noCluster
					continue
				}
				id := v.Clusters.Of(version, int(section-first)-1)
				number, ok := numbers[id]
				if !ok {
					number = uint32(len(t.ids))
					numbers[id] = number
					t.ids = append(t.ids, id)
					t.lengths = append(t.lengths, 0)
				}
				of[section] = number
				length := uint64(d.lengths[zoomSection][section])
				t.lengths[number] += length
				t.total += length
			}
		}
		t.of[i] = of
	}
	return t
}

func (t *clusterTable) bytes() int {
	n := 24*len(t.ids) + t.postingsBytes
	for _, of := range t.of {
		n += 4 * len(of)
	}
	return n
}
