package store

// This file sends and receives vectors in the format in which they are stored: the bits of half
// precision numbers, without converting them to float32.

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
	pgxvector "github.com/pgvector/pgvector-go/pgx"
)

// HalfRow is a vector in the bits of IEEE 754 half precision.
type HalfRow []uint16

// halfCodec is pgvector's codec of halfvec, which also takes a HalfRow, and reads into one.
type halfCodec struct{ pgxvector.HalfVectorCodec }

// PlanEncode implements pgtype.Codec.
func (c halfCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(HalfRow); ok && format == pgtype.BinaryFormatCode {
		return encodeHalfRow{}
	}
	return c.HalfVectorCodec.PlanEncode(m, oid, format, value)
}

type encodeHalfRow struct{}

// Encode implements pgtype.EncodePlan: dimension, two unused bytes, the numbers.
func (encodeHalfRow) Encode(value any, buf []byte) ([]byte, error) {
	return value.(HalfRow).append(buf), nil
}

func (row HalfRow) append(buf []byte) []byte {
	at := len(buf)
	buf = slices.Grow(buf, 4+2*len(row))[:at+4+2*len(row)]
	binary.BigEndian.PutUint32(buf[at:], uint32(len(row))<<16)
	for i, bits := range row {
		binary.BigEndian.PutUint16(buf[at+4+2*i:], bits)
	}
	return buf
}

// PlanScan implements pgtype.Codec.
func (c halfCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*HalfRow); ok && format == pgtype.BinaryFormatCode {
		return scanHalfRow{}
	}
	return c.HalfVectorCodec.PlanScan(m, oid, format, target)
}

type scanHalfRow struct{}

// Scan implements pgtype.ScanPlan. It overwrites the row that target had before.
func (scanHalfRow) Scan(src []byte, target any) error {
	if len(src) < 4 || len(src) != 4+2*int(binary.BigEndian.Uint16(src)) {
		return fmt.Errorf("a halfvec of %d bytes is not as long as it says", len(src))
	}
	row := target.(*HalfRow)
	n := len(src)/2 - 2
	*row = slices.Grow((*row)[:0], n)[:n]
	for i := range *row {
		(*row)[i] = binary.BigEndian.Uint16(src[4+2*i:])
	}
	return nil
}

// halfArrayCodec is the codec of halfvec[], which also accepts a []HalfRow: pgx would take that for
// a two-dimensional array.
type halfArrayCodec struct {
	pgtype.ArrayCodec
	element uint32 // OID
}

// PlanEncode implements pgtype.Codec.
func (c *halfArrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]HalfRow); ok && format == pgtype.BinaryFormatCode {
		return encodeHalfRows{c.element}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// PreferredFormat implements pgtype.Codec: ArrayCodec would ask its elements, which prefer text.
func (c *halfArrayCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

type encodeHalfRows struct{ element uint32 }

// Encode implements pgtype.EncodePlan, in the format of array_recv: the number of dimensions, the
// flag for nulls, the element type, the length and the lower bound; then each row, after its
// length.
func (p encodeHalfRows) Encode(value any, buf []byte) ([]byte, error) {
	rows := value.([]HalfRow)
	size := 20
	for _, row := range rows {
		size += 8 + 2*len(row)
	}
	buf = slices.Grow(buf, size)
	for _, n := range []uint32{1, 0, p.element, uint32(len(rows)), 1} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for _, row := range rows {
		buf = binary.BigEndian.AppendUint32(buf, uint32(4+2*len(row)))
		buf = row.append(buf)
	}
	return buf, nil
}

// registerHalf replaces pgvector's codecs in a connection's types.
func registerHalf(m *pgtype.Map) {
	half, ok := m.TypeForName("halfvec")
	if !ok {
		return
	}
	half = &pgtype.Type{Name: half.Name, OID: half.OID, Codec: halfCodec{}}
	m.RegisterType(half)
	if array, ok := m.TypeForName("_halfvec"); ok {
		m.RegisterType(&pgtype.Type{Name: array.Name, OID: array.OID,
			Codec: &halfArrayCodec{ArrayCodec: pgtype.ArrayCodec{ElementType: half}, element: half.OID}})
	}
}
