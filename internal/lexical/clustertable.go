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
	n := 24 * len(t.ids)
	for _, of := range t.of {
		n += 4 * len(of)
	}
	return n
}
