package lexical

import "github.com/google/uuid"

// Bits is a set of small numbers.
type Bits []uint64

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// Visible returns, for each segment of the view, the entries that are living,
// permitted to groups and, when versions is not nil, of one of them. The view
// must hold the pages of NeedsOfGroups(groups).
func (v *View) Visible(groups []string, versions map[uuid.UUID]bool) ([]Bits, error) {
	return nil, errUnfinished
}
