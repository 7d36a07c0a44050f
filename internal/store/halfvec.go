package store

// This file sends vectors as they are kept: half precision goes to Postgres bit
// by bit, without a detour over float32.

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
	pgxvector "github.com/pgvector/pgvector-go/pgx"
)

// halfRow is a vector in the bits of IEEE 754 half precision.
type halfRow []uint16

// halfCodec is pgvector's codec of halfvec, which also takes a halfRow.
type halfCodec struct{ pgxvector.HalfVectorCodec }

// PlanEncode implements pgtype.Codec.
func (c halfCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(halfRow); ok && format == pgtype.BinaryFormatCode {
		return encodeHalfRow{}
	}
	return c.HalfVectorCodec.PlanEncode(m, oid, format, value)
}

type encodeHalfRow struct{}

// Encode implements pgtype.EncodePlan: dimension, two unused bytes, the numbers.
func (encodeHalfRow) Encode(value any, buf []byte) ([]byte, error) {
	row := value.(halfRow)
	buf = slices.Grow(buf, 4+2*len(row))
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(row)))
	buf = binary.BigEndian.AppendUint16(buf, 0)
	for _, bits := range row {
		buf = binary.BigEndian.AppendUint16(buf, bits)
	}
	return buf, nil
}

// registerHalf replaces pgvector's codec in a connection's types.
func registerHalf(m *pgtype.Map) {
	if t, ok := m.TypeForName("halfvec"); ok {
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: halfCodec{}})
	}
}
