// Package storage replaces cloud.google.com/go/storage, with which the Temporal server can archive
// histories in Google Cloud Storage. A server for one machine archives none: no client can be
// created.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

// ScopeFullControl has the same value as in the original.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

var errAbsent = errors.New("this Temporal server is built without Google Cloud Storage")

// The types that the server uses. None are created, because there is no client.
type (
	Client         struct{}
	BucketHandle   struct{}
	BucketAttrs    struct{}
	ObjectHandle   struct{}
	ObjectAttrs    struct{ Name string }
	ObjectIterator struct{}
	Query          struct{ Prefix string }
	Reader         struct{}
	Writer         struct{}
)

// NewClient fails.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, errAbsent }

// All of these fail, too.

func (*Client) Bucket(string) *BucketHandle                           { return &BucketHandle{} }
func (*BucketHandle) Object(string) *ObjectHandle                     { return &ObjectHandle{} }
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return &ObjectIterator{} }
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error)     { return nil, errAbsent }
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error)     { return nil, errAbsent }
func (*ObjectHandle) NewReader(context.Context) (*Reader, error)      { return nil, errAbsent }
func (*ObjectHandle) NewWriter(context.Context) *Writer               { return &Writer{} }
func (*ObjectIterator) Next() (*ObjectAttrs, error)                   { return nil, errAbsent }
func (*Reader) Read([]byte) (int, error)                              { return 0, errAbsent }
func (*Reader) Close() error                                          { return nil }
func (*Writer) Write([]byte) (int, error)                             { return 0, errAbsent }
func (*Writer) Close() error                                          { return errAbsent }
func (*Writer) CloseWithError(error) error                            { return nil }
