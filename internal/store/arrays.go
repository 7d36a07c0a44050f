package store

// This file writes arrays as Postgres reads them in binary (array_recv):
// dimensions, no nulls, the elements' type, length and lower bound; then each
// element behind its length.

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// appendArray writes an array of the type that Postgres expects. It returns nil
// when list is none that is known here.
func appendArray(buf []byte, oid uint32, list any) []byte {
	switch list := list.(type) {
	case []uuid.UUID:
		if oid == pgtype.UUIDArrayOID {
			return appendUUIDs(buf, list)
		}
	case []string:
		if oid == pgtype.TextArrayOID {
			return appendTexts(buf, list)
		}
	case []int:
		if oid == pgtype.Int4ArrayOID && !slices.ContainsFunc(list, func(x int) bool { return x < math.MinInt32 || x > math.MaxInt32 }) {
			return appendInts(buf, list)
		}
	}
	return nil
}

// appendArrayHead begins an array of n elements, which take size bytes with their
// lengths.
func appendArrayHead(buf []byte, element uint32, n, size int) []byte {
	head := []uint32{1, 0, element, uint32(n), 1}
	if n == 0 {
		head = []uint32{0, 0, element}
	}
	buf = slices.Grow(buf, 4*len(head)+size)
	for _, x := range head {
		buf = binary.BigEndian.AppendUint32(buf, x)
	}
	return buf
}

func appendUUIDs(buf []byte, list []uuid.UUID) []byte {
	buf = appendArrayHead(buf, pgtype.UUIDOID, len(list), 20*len(list))
	for i := range list {
		buf = append(binary.BigEndian.AppendUint32(buf, 16), list[i][:]...)
	}
	return buf
}

func appendTexts(buf []byte, list []string) []byte {
	size := 0
	for _, text := range list {
		size += 4 + len(text)
	}
	buf = appendArrayHead(buf, pgtype.TextOID, len(list), size)
	for _, text := range list {
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(text))), text...)
	}
	return buf
}

// appendInts writes numbers that fit into int4.
func appendInts(buf []byte, list []int) []byte {
	buf = appendArrayHead(buf, pgtype.Int4OID, len(list), 8*len(list))
	for _, x := range list {
		buf = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(buf, 4), uint32(x))
	}
	return buf
}
