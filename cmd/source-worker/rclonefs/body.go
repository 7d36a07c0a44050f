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
	connector *connector
	ctx       context.Context
	stop      func() bool
	remaining int64 // -1: unknown
}

func (c *connector) body(ctx context.Context, rc io.ReadCloser, o fs.Object) *body {
	b := &body{ReadCloser: rc, connector: c, ctx: ctx, remaining: -1}
	if !c.kind.inexactSizes {
		b.remaining = max(o.Size(), -1)
	}
	b.stop = context.AfterFunc(ctx, func() { _ = rc.Close() })
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.remaining >= 0 {
		b.remaining = max(b.remaining-int64(n), 0)
	}
	switch {
	case err == nil:
		return n, nil
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	case errors.Is(err, io.EOF) && b.remaining > 0:
		return n, fmt.Errorf("the file is %d bytes shorter than the source's server reported: %w", b.remaining, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF):
		return n, io.EOF
	default:
		return n, b.connector.failure(b.ctx, err)
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}
