package documents

// This file reads the content of uploads once, whatever its length. It hashes the content, and
// keeps it in memory while it is small and in a temporary file beyond, so that the transaction that
// stores it waits for no client and can be repeated.

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// ChunkBytes is the size of all stored chunks but the last.
	ChunkBytes    = 1 << 20
	spoolInMemory = 8 << 20 // of all contents of one upload together
)

// spool holds the contents of one call of Upload. It must be closed.
type spool struct {
	held int
	file *os.File
	size int64 // of the file
}

// Content is the content of one upload.
type Content struct {
	Bytes    int64
	TooLarge bool // reading stopped at the limit; the bytes are not kept
	sha256   [sha256.Size]byte
	memory   []byte
	from     io.ReaderAt // nil: in memory
}

// read reads r up to limit bytes.
func (s *spool) read(r io.Reader, limit int64) (*Content, error) {
	sum := sha256.New()
	in := io.TeeReader(io.LimitReader(r, limit+1), sum)
	c := &Content{}
	var head bytes.Buffer
	n, err := io.Copy(&head, io.LimitReader(in, int64(min(ChunkBytes, spoolInMemory-s.held))))
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	c.Bytes = n
	// Read on, to find out whether that was all.
	next := make([]byte, 32<<10)
	m, err := io.ReadFull(in, next)
	switch {
	case errors.Is(err, io.EOF):
		c.memory = head.Bytes()
		s.held += len(c.memory)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("read content: %w", err)
	default:
		if err := s.spill(c, io.MultiReader(&head, bytes.NewReader(next[:m]), in)); err != nil {
			return nil, err
		}
	}
	sum.Sum(c.sha256[:0])
	if c.Bytes > limit {
		*c = Content{Bytes: c.Bytes, TooLarge: true, sha256: c.sha256}
	}
	return c, nil
}

// spill appends r to the temporary file.
func (s *spool) spill(c *Content, r io.Reader) error {
	if s.file == nil {
		file, err := os.CreateTemp("", "sluice-upload-*")
		if err != nil {
			return fmt.Errorf("make a temporary file for an upload: %w", err)
		}
		s.file = file
		// Where the system allows it the name is removed at once, so that a killed process leaves
		// no file behind.
		_ = os.Remove(file.Name())
	}
	n, err := io.Copy(io.NewOffsetWriter(s.file, s.size), r)
	if err != nil {
		return fmt.Errorf("read content into a temporary file: %w", err)
	}
	c.from, c.Bytes = io.NewSectionReader(s.file, s.size, n), n
	s.size += n
	return nil
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if removed := os.Remove(s.file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// Chunks returns the number of chunks as which the content is stored, 0 if it is empty.
func (c *Content) Chunks() int { return int((c.Bytes + ChunkBytes - 1) / ChunkBytes) }

// Chunk returns chunk i.
func (c *Content) Chunk(i int) ([]byte, error) {
	start := int64(i) * ChunkBytes
	size := min(ChunkBytes, c.Bytes-start)
	if c.from == nil {
		return c.memory[start : start+size], nil
	}
	out := make([]byte, size)
	if _, err := c.from.ReadAt(out, start); err != nil {
		return nil, fmt.Errorf("read back content: %w", err)
	}
	return out, nil
}

// Open returns a reader of the content, from its beginning.
func (c *Content) Open() io.Reader {
	if c.from == nil {
		return bytes.NewReader(c.memory)
	}
	return io.NewSectionReader(c.from, 0, c.Bytes)
}
