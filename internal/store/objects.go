package store

// This file says what a store of objects has to do that keeps bytes of documents
// in place of Postgres.

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Object names the bytes of a blob that are kept outside of Postgres. ID is made
// anew for each object that is written, so that a name is never used twice and a
// late deletion meets no other object.
type Object struct {
	Tenant uuid.UUID
	SHA256 []byte // 32 bytes
	ID     uuid.UUID
	Bytes  int64
}

// Key is the object's name below the bucket's prefix: identifiers and hexadecimal
// digits alone.
func (o Object) Key() string {
	return o.Tenant.String() + "/" + hex.EncodeToString(o.SHA256) + "/" + o.ID.String()
}

// ObjectsLock is the advisory lock that a backup holds, so that no object that its
// snapshot names is deleted. Who deletes objects shares it in the transaction that
// decides so, or leaves them.
const ObjectsLock int64 = 0x736c7569636502 // "sluice", 2

// Objects keeps bytes of documents outside of Postgres. It is an
// ObjectsUnavailableError when it does not answer or its settings are wrong.
type Objects interface {
	// Put stores o.Bytes bytes of r, and returns when they are stored for good. It
	// fails when they do not have o.SHA256.
	Put(ctx context.Context, o Object, r io.Reader) error
	// Open reads an object from a byte on. schema.ErrNotFound: there is none. A
	// DamagedError: it has another length than o.Bytes. The bytes are not compared
	// with o.SHA256.
	Open(ctx context.Context, o Object, from int64) (io.ReadCloser, error)
	// Delete deletes an object; one that is not there is no error.
	Delete(ctx context.Context, o Object) error
	// Where names an object for people who look for it.
	Where(o Object) string
	// Check reports whether the objects can be reached.
	Check(ctx context.Context) error
}

// ObjectsUnavailableError says that objects cannot be reached, and what an operator can do. It
// names addresses and settings, which are nothing for a tenant to see.
type ObjectsUnavailableError struct{ Problem string }

func (e *ObjectsUnavailableError) Error() string {
	return e.Problem + ": " + schema.ErrUnavailable.Error()
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true.
func (e *ObjectsUnavailableError) Unwrap() error { return schema.ErrUnavailable }

// DamagedError says that bytes that were stored are gone, or are others.
type DamagedError struct {
	Where   string
	Problem string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s %s; restore it from a backup, or upload the document again", e.Where, e.Problem)
}
