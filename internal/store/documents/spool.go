package documents

// This file reads the content of uploads once, whatever its length: hashed on
// the way, kept in memory while it is small and in a temporary file beyond, so
// that the transaction that stores it waits for no client and can be repeated.

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
	chunkBytes    = 1 << 20 // of a stored chunk
	spoolInMemory = 8 << 20 // of all contents of one upload together
)

// spool holds the contents of one call of Upload. Close it at the end.
type spool struct {
	held int
	file *os.File
	size int64 // of the file
}

// content is what one upload's reader gave.
type content struct {
	sha256   [sha256.Size]byte
	bytes    int64
	tooLarge bool // reading stopped over the limit; the bytes are not kept
	memory   []byte
	from     io.ReaderAt // when not in memory
}

// read takes in r up to limit bytes.
func (s *spool) read(r io.Reader, limit int64) (*content, error) {
	sum := sha256.New()
	in := io.TeeReader(io.LimitReader(r, limit+1), sum)
	c := &content{}
	var head bytes.Buffer
	n, err := io.Copy(&head, io.LimitReader(in, int64(min(chunkBytes, spoolInMemory-s.held))))
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	c.bytes = n
	// Read on to learn whether that was all.
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
	if c.bytes > limit {
		*c = content{sha256: c.sha256, bytes: c.bytes, tooLarge: true}
	}
	return c, nil
}

// spill writes r to the end of the temporary file.
func (s *spool) spill(c *content, r io.Reader) error {
	if s.file == nil {
		file, err := os.CreateTemp("", "sluice-upload-*")
		if err != nil {
			return fmt.Errorf("make a temporary file for an upload: %w", err)
		}
		s.file = file
		// Where the system allows it the name goes at once, so that a killed
		// process leaves nothing behind.
		_ = os.Remove(file.Name())
	}
	n, err := io.Copy(io.NewOffsetWriter(s.file, s.size), r)
	if err != nil {
		return fmt.Errorf("read content into a temporary file: %w", err)
	}
	c.from, c.bytes = io.NewSectionReader(s.file, s.size, n), n
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

// chunks is how many chunks the content is stored as; none when it is empty.
func (c *content) chunks() int { return int((c.bytes + chunkBytes - 1) / chunkBytes) }

// chunk returns chunk i.
func (c *content) chunk(i int) ([]byte, error) {
	start := int64(i) * chunkBytes
	size := min(chunkBytes, c.bytes-start)
	if c.from == nil {
		return c.memory[start : start+size], nil
	}
	out := make([]byte, size)
	if _, err := c.from.ReadAt(out, start); err != nil {
		return nil, fmt.Errorf("read back content: %w", err)
	}
	return out, nil
}
