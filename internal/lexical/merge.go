package lexical

import "github.com/google/uuid"

// MergeInput is a segment to merge. Page loads a page of terms; a merge asks
// for each once, in their order.
type MergeInput struct {
	Segment   *Segment
	Directory *Directory
	Page      func(number int) (*Page, error)
}

// Merge makes one segment of several, without the dead entries. Searches of it
// find what searches of the inputs find. It holds the output and one page of
// each input in memory.
func Merge(id uuid.UUID, inputs []MergeInput, dead map[uuid.UUID]bool) (Built, error) {
	return Built{}, errUnfinished
}
