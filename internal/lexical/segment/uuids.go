package segment

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// uuidTable finds ids in a slice: a hash table with open addressing of their indexes plus one,
// several times smaller than a map.
type uuidTable []uint32

func newUUIDTable(ids []uuid.UUID) uuidTable {
	size := 4
	for size < 2*len(ids) {
		size *= 2
	}
	t := make(uuidTable, size)
	for i, id := range ids {
		at := t.start(id)
		for t[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		t[at] = uint32(i + 1)
	}
	return t
}

// start returns the first bucket of an id. It mixes all bytes, since ids may be random or
// sequential.
func (t uuidTable) start(id uuid.UUID) int {
	h := binary.BigEndian.Uint64(id[:8])*0x9e3779b97f4a7c15 ^ binary.BigEndian.Uint64(id[8:])
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return int(h & uint64(len(t)-1))
}

// each calls found with every index of id in ids.
func (t uuidTable) each(ids []uuid.UUID, id uuid.UUID, found func(index int)) {
	for at := t.start(id); t[at] != 0; at = (at + 1) & (len(t) - 1) {
		if index := int(t[at]) - 1; ids[index] == id {
			found(index)
		}
	}
}

// positions lists the indexes of id in ids.
func (t uuidTable) positions(ids []uuid.UUID, id uuid.UUID) []int {
	var out []int
	t.each(ids, id, func(index int) { out = append(out, index) })
	return out
}

// duplicate finds an id that occurs twice.
func (t uuidTable) duplicate(ids []uuid.UUID) (index int, found bool) {
	for i, id := range ids {
		t.each(ids, id, func(other int) {
			if other != i {
				index, found = i, true
			}
		})
	}
	return index, found
}
