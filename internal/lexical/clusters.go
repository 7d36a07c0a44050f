package lexical

import "github.com/google/uuid"

// Clusters says which cluster each section is in. It never changes; With makes
// another. Sections that it does not know are clusters of their own, named by
// SingletonCluster.
type Clusters struct{}

// ClusterChange puts a section into a cluster; the nil cluster takes it out of
// the one that it is in.
type ClusterChange struct {
	Version uuid.UUID
	Section int
	Cluster uuid.UUID
}

// NewClusters returns a snapshot of assignments.
func NewClusters(assignments []ClusterChange) *Clusters { return &Clusters{} }

// With returns a snapshot with changes, in their order, made.
func (c *Clusters) With(changes []ClusterChange) *Clusters { return c }

// Of returns the cluster of a section.
func (c *Clusters) Of(version uuid.UUID, section int) uuid.UUID { return uuid.Nil }

// Bytes is about what the snapshot takes in memory.
func (c *Clusters) Bytes() int { return 0 }

// SingletonCluster is the id of the cluster that a section makes alone.
func SingletonCluster(version uuid.UUID, section int) uuid.UUID { return uuid.Nil }
