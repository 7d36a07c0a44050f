// Package audit computes the chains of the audit log: which bytes an entry is, its
// hash over the one before, and whether a chain is whole. It stores nothing.
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

// Hash is SHA-256 over the hash of the entry before, empty for the first, and the
// fields of an entry, each led by its length in bytes as four bytes, the most
// significant first. Migration 230 has the same in SQL.
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

// ReadFields are what is hashed of a read.
func ReadFields(tenant uuid.UUID, number int64, written time.Time, r schema.AuditRead) []string {
	key := ""
	if r.Key != nil {
		key = r.Key.String()
	}
	return []string{"read", tenant.String(), strconv.FormatInt(number, 10), micros(written), r.ID.String(), micros(r.At),
		r.Action, strconv.Itoa(r.Status), r.Via, key, r.KeyName, r.Person, r.Address, r.Agent, r.Trace, r.Collection, r.Target,
		r.Query, Documents(r.Documents)}
}

// ChangeFields are what is hashed of a change. Detail is JSON as Postgres writes it.
func ChangeFields(tenant uuid.UUID, number int64, c schema.AuditChange) []string {
	return []string{"change", tenant.String(), strconv.FormatInt(number, 10), c.ID.String(), micros(c.At), c.Actor, c.Action, c.Target, c.Detail}
}

// micros is a time as Postgres keeps it, in microseconds since 1970.
func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// Documents are ids as one text.
func Documents(ids []uuid.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ",")
}
