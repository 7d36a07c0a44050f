package lexical

import (
	"encoding/binary"
	"maps"

	"github.com/google/uuid"
)

// Clusters says which cluster each section is in. It never changes; With makes
// another. Sections that it does not know are clusters of their own, named by
// SingletonCluster.
type Clusters struct {
	// base is shared by snapshots; changes lies over it, the nil cluster where a
	// section left its own.
	base, changes map[sectionKey]uuid.UUID
}

type sectionKey struct {
	version uuid.UUID
	section int32
}

// ClusterChange puts a section into a cluster; the nil cluster takes it out of
// the one that it is in.
type ClusterChange struct {
	Version uuid.UUID
	Section int
	Cluster uuid.UUID
}

// NewClusters returns a snapshot of assignments.
func NewClusters(assignments []ClusterChange) *Clusters {
	c := &Clusters{base: make(map[sectionKey]uuid.UUID, len(assignments))}
	for _, a := range assignments {
		if a.Cluster == uuid.Nil {
			delete(c.base, a.key())
		} else {
			c.base[a.key()] = a.Cluster
		}
	}
	return c
}

func (a ClusterChange) key() sectionKey { return sectionKey{a.Version, int32(a.Section)} }

// With returns a snapshot with changes, in their order, made. It takes time in
// proportion to the changes since the snapshot was last laid out anew, which
// happens when they are a quarter of it.
func (c *Clusters) With(changes []ClusterChange) *Clusters {
	if c == nil {
		return NewClusters(changes)
	}
	next := &Clusters{base: c.base, changes: make(map[sectionKey]uuid.UUID, len(c.changes)+len(changes))}
	maps.Copy(next.changes, c.changes)
	for _, ch := range changes {
		next.changes[ch.key()] = ch.Cluster
	}
	if 4*len(next.changes) < len(next.base) {
		return next
	}
	whole := make(map[sectionKey]uuid.UUID, len(next.base)+len(next.changes))
	maps.Copy(whole, next.base)
	for key, cluster := range next.changes {
		if cluster == uuid.Nil {
			delete(whole, key)
		} else {
			whole[key] = cluster
		}
	}
	return &Clusters{base: whole}
}

// Of returns the cluster of a section.
func (c *Clusters) Of(version uuid.UUID, section int) uuid.UUID {
	if cluster := c.assigned(version, section); cluster != uuid.Nil {
		return cluster
	}
	return SingletonCluster(version, section)
}

// assigned returns the cluster that a section was put into; nil: none.
func (c *Clusters) assigned(version uuid.UUID, section int) uuid.UUID {
	if c == nil {
		return uuid.Nil
	}
	key := sectionKey{version, int32(section)}
	if cluster, ok := c.changes[key]; ok {
		return cluster
	}
	return c.base[key]
}

// Bytes is about what the snapshot takes in memory, with what it shares.
func (c *Clusters) Bytes() int {
	const entry = 80 // of a map, with its room to grow
	return entry * (len(c.base) + len(c.changes))
}

// SingletonCluster is the id of the cluster that a section makes alone: a
// UUID of version 5, of the section's ordinal in the space of its version.
func SingletonCluster(version uuid.UUID, section int) uuid.UUID {
	var ordinal [4]byte
	binary.BigEndian.PutUint32(ordinal[:], uint32(section))
	return uuid.NewSHA1(version, ordinal[:])
}
