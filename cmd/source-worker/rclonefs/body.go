package rclonefs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rclone/rclone/fs"
)

// body reads a file, and returns an error if the file ends too early.
type body struct {
	io.ReadCloser
	place *connector
	ctx   context.Context
	stop  func() bool
	left  int64 // -1: unknown
}

func (c *connector) body(ctx context.Context, of io.ReadCloser, o fs.Object) *body {
	b := &body{ReadCloser: of, place: c, ctx: ctx, left: -1}
	if !c.kind.inexactSizes {
		b.left = max(o.Size(), -1)
	}
	b.stop = context.AfterFunc(ctx, func() { _ = of.Close() })
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left >= 0 {
		b.left = max(b.left-int64(n), 0)
	}
	switch {
	case err == nil:
		return n, nil
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	case errors.Is(err, io.EOF) && b.left > 0:
		return n, fmt.Errorf("the file is %d bytes shorter than the place says: %w", b.left, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF):
		return n, io.EOF
	default:
		return n, b.place.failure(b.ctx, err)
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
