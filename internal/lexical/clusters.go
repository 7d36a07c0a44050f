package lexical

import (
	"encoding/binary"
	"maps"

	"github.com/google/uuid"
)

// Clusters maps each section to its cluster. It is immutable; With returns a changed copy. A
// section that it does not have is a cluster of its own, with the id SingletonCluster.
type Clusters struct {
	// base is shared by snapshots. changes overrides it; the nil cluster means that a section left
	// its cluster.
	base, changes map[sectionKey]uuid.UUID
}

type sectionKey struct {
	version uuid.UUID
	section int32
}

// ClusterChange puts a section into a cluster; the nil cluster removes it from its cluster.
type ClusterChange struct {
	Version uuid.UUID
	Section int
	Cluster uuid.UUID
}

// NewClusters returns a snapshot with these assignments.
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

// With returns a snapshot with changes applied in their order. It takes time in proportion to the
// changes since the base was last rebuilt, which happens when they are a quarter of it.
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

// assigned returns the cluster that a section was put into; nil if none.
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

// Bytes is the approximate size of the snapshot in memory, including what it shares.
func (c *Clusters) Bytes() int {
	const entry = 80 // an entry of a map, with its spare room
	return entry * (len(c.base) + len(c.changes))
}

// SingletonCluster returns the id of the cluster that a section is alone in: a UUID of version 5,
// made from the section's ordinal in the namespace of its version.
func SingletonCluster(version uuid.UUID, section int) uuid.UUID {
	var ordinal [4]byte
	binary.BigEndian.PutUint32(ordinal[:], uint32(section))
	return uuid.NewSHA1(version, ordinal[:])
}
