// Package audit computes the hash chains of the audit log: the bytes of an entry, the hash over
// them and the previous hash, and whether a chain is intact. It stores nothing.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Hash returns SHA-256 over the hash of the previous entry, empty for the first, and the fields of
// an entry, each preceded by its length in bytes as a big-endian uint32. Migration 230 has the same
// in SQL.
func Hash(previous []byte, fields []string) []byte {
	h := sha256.New()
	h.Write(previous)
	var length [4]byte
	for _, f := range fields {
		binary.BigEndian.PutUint32(length[:], uint32(len(f)))
		h.Write(length[:])
		h.Write([]byte(f))
	}
	return h.Sum(nil)
}

// ReadFields returns the fields of a read that are hashed.
func ReadFields(tenant uuid.UUID, number int64, written time.Time, r schema.AuditRead) []string {
	key := ""
	if r.Key != nil {
		key = r.Key.String()
	}
	return []string{"read", tenant.String(), strconv.FormatInt(number, 10), micros(written), r.ID.String(), micros(r.At),
		r.Action, strconv.Itoa(r.Status), r.Via, key, r.KeyName, r.Person, r.Address, r.Agent, r.Trace, r.Collection, r.Target,
		r.Query, Documents(r.Documents)}
}

// ChangeFields returns the fields of a change that are hashed. Detail is JSON in the form that
// Postgres writes.
func ChangeFields(tenant uuid.UUID, number int64, c schema.AuditChange) []string {
	return []string{"change", tenant.String(), strconv.FormatInt(number, 10), c.ID.String(), micros(c.At), c.Actor, c.Action, c.Target, c.Detail}
}

// micros formats a time with the precision of Postgres, in microseconds since 1970.
func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// Documents joins ids to one text.
func Documents(ids []uuid.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ",")
}
