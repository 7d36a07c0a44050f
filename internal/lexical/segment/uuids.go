package segment

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// uuidTable finds ids in a list: an open-addressed table of their places plus
// one, several times smaller than a map.
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

// start mixes all bytes: ids may be random or count up.
func (t uuidTable) start(id uuid.UUID) int {
	h := binary.BigEndian.Uint64(id[:8])*0x9e3779b97f4a7c15 ^ binary.BigEndian.Uint64(id[8:])
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return int(h & uint64(len(t)-1))
}

// each calls found with every place of id in ids.
func (t uuidTable) each(ids []uuid.UUID, id uuid.UUID, found func(place int)) {
	for at := t.start(id); t[at] != 0; at = (at + 1) & (len(t) - 1) {
		if place := int(t[at]) - 1; ids[place] == id {
			found(place)
		}
	}
}

// places lists the places of id in ids.
func (t uuidTable) places(ids []uuid.UUID, id uuid.UUID) []int {
	var places []int
	t.each(ids, id, func(place int) { places = append(places, place) })
	return places
}

// twice finds an id that is there twice.
func (t uuidTable) twice(ids []uuid.UUID) (place int, found bool) {
	for i, id := range ids {
		t.each(ids, id, func(other int) {
			if other != i {
				place, found = i, true
			}
		})
	}
	return place, found
}
