package store

// This file defines the interface of an object store that keeps bytes of documents in place of
// Postgres.

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Object names the bytes of a blob that are stored outside of Postgres. Each object that is written
// gets a new ID, so that a name is never used twice, and a late deletion never removes another
// object.
type Object struct {
	Tenant uuid.UUID
	SHA256 []byte // 32 bytes
	ID     uuid.UUID
	Bytes  int64
}

// Key returns the object's name below the bucket's prefix, which consists of identifiers and
// hexadecimal digits only.
func (o Object) Key() string {
	return o.Tenant.String() + "/" + hex.EncodeToString(o.SHA256) + "/" + o.ID.String()
}

// ObjectsLock is the advisory lock that a backup holds, so that no object in its snapshot is
// deleted. A transaction that decides to delete objects takes it as a shared lock, or deletes none.
const ObjectsLock int64 = 0x736c7569636502 // "sluice", 2

// Objects stores bytes of documents outside of Postgres. Its methods return an
// ObjectsUnavailableError when the service does not answer or the settings are wrong.
type Objects interface {
	// Put stores o.Bytes bytes of r, and returns when they are stored durably. It returns an error
	// when their SHA-256 is not o.SHA256.
	Put(ctx context.Context, o Object, r io.Reader) error
	// Open reads an object from byte from on. The error is schema.ErrNotFound when there is no such
	// object, and a DamagedError when its length is not o.Bytes. Open does not compare the bytes
	// with o.SHA256.
	Open(ctx context.Context, o Object, from int64) (io.ReadCloser, error)
	// Delete deletes an object; a missing one is no error.
	Delete(ctx context.Context, o Object) error
	// Where names the location of an object for error messages.
	Where(o Object) string
	// Check returns an error unless the objects can be reached.
	Check(ctx context.Context) error
}

// ObjectsUnavailableError says that objects cannot be reached, and what an operator can do. It
// names addresses and settings, which tenants must not see.
type ObjectsUnavailableError struct{ Problem string }

func (e *ObjectsUnavailableError) Error() string {
	return e.Problem + ": " + schema.ErrUnavailable.Error()
}

// Unwrap makes errors.Is(err, schema.ErrUnavailable) true.
func (e *ObjectsUnavailableError) Unwrap() error { return schema.ErrUnavailable }

// DamagedError says that stored bytes are missing or changed.
type DamagedError struct {
	Where   string
	Problem string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s %s; restore it from a backup, or upload the document again", e.Where, e.Problem)
}
