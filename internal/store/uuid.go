package store

// This file makes pgx send UUIDs in binary. pgx only knows google/uuid's type by the interface of
// database/sql, and would write each as text, fail, and parse that.

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUID makes a connection's type map encode uuid.UUID.
func registerUUID(types *pgtype.Map) {
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapUUID}, types.TryWrapEncodePlanFuncs...)
}

// plainUUID is a UUID in a form that pgx knows.
type plainUUID uuid.UUID

// UUIDValue implements pgtype.UUIDValuer.
func (u plainUUID) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: u, Valid: true}, nil
}

func wrapUUID(value any) (plan pgtype.WrappedEncodePlanNextSetter, next any, ok bool) {
	if u, ok := value.(uuid.UUID); ok {
		return &uuidPlan{}, plainUUID(u), true
	}
	return nil, nil, false
}

type uuidPlan struct{ next pgtype.EncodePlan }

func (p *uuidPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *uuidPlan) Encode(value any, buf []byte) ([]byte, error) {
	return p.next.Encode(plainUUID(value.(uuid.UUID)), buf)
}
