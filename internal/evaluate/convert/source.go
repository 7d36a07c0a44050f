package convert

// This file opens files, with or without gzip, as UTF-8 text, and reports how far they are read.

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// sourceFile is a file or a BEIR folder, with its kind.
type sourceFile struct {
	path string
	kind *kind
}

// input is the text of a file.
type input struct {
	name string // for messages
	*bufio.Reader
}

// stream makes a reader of sources from a reader of text.
func stream(read func(s *set, in *input) error) readFunc {
	return func(ctx context.Context, s *set, src sourceFile) error {
		in, closing, err := open(ctx, src.path, s.options.Progress)
		if err != nil {
			return err
		}
		return errors.Join(read(s, in), closing())
	}
}

// open opens a text file.
func open(ctx context.Context, path string, progress func(string, int64, int64)) (*input, func() error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, and has no corpus.jsonl: name the file in it", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	in, err := textOf(path, &measured{ctx: ctx, in: f, name: filepath.Base(path), of: info.Size(), progress: progress})
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return in, f.Close, nil
}

// peekBytes is how many bytes of a file can be inspected before it is read.
const peekBytes = 1 << 20

// textOf returns the text of a file that may be compressed, without a byte order mark.
func textOf(name string, raw io.Reader) (*input, error) {
	b := bufio.NewReaderSize(raw, 64<<10)
	magic, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("%s: unpack: %w", name, err)
		}
		b = bufio.NewReaderSize(unpacked, 64<<10)
		if magic, err = b.Peek(4); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: unpack: %w", name, err)
		}
	}
	switch {
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return nil, fmt.Errorf("%s is an archive without a corpus.jsonl: unpack it, and name the file in it", name)
	case bytes.HasPrefix(magic, []byte{0xff, 0xfe}), bytes.HasPrefix(magic, []byte{0xfe, 0xff}):
		return nil, fmt.Errorf("%s is UTF-16: save it as UTF-8", name)
	case bytes.HasPrefix(magic, []byte("\ufeff")):
		if _, err := b.Discard(3); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return &input{name, bufio.NewReaderSize(&utf8Reader{in: b, line: 1}, peekBytes)}, nil
}

// measured reports how far a file is read, and fails when its context ends.
type measured struct {
	ctx      context.Context
	in       io.Reader
	name     string
	done, of int64
	reported int64
	progress func(string, int64, int64)
}

// progressBytes is the number of bytes between reports of progress.
const progressBytes = 1 << 20

// Read implements io.Reader.
func (m *measured) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.in.Read(p)
	m.done += int64(n)
	if m.progress != nil && (m.done-m.reported >= progressBytes || errors.Is(err, io.EOF) && m.reported < m.done) {
		m.reported = m.done
		m.progress(m.name, m.done, max(m.of, m.done))
	}
	return n, err
}

// utf8Reader passes on UTF-8, and fails at other bytes, which would silently become other text.
type utf8Reader struct {
	in   io.Reader
	tail []byte // beginning of an incomplete character
	line int
}

// Read implements io.Reader.
func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if bad := u.check(p[:n]); bad != nil {
		return 0, bad
	}
	if errors.Is(err, io.EOF) && len(u.tail) > 0 {
		return 0, u.encodingError()
	}
	return n, err
}

func (u *utf8Reader) encodingError() error {
	return fmt.Errorf("line %d is not UTF-8: save the file as UTF-8", u.line)
}

func (u *utf8Reader) check(p []byte) error {
	for len(u.tail) > 0 && len(p) > 0 {
		u.tail, p = append(u.tail, p[0]), p[1:]
		if utf8.FullRune(u.tail) {
			if !utf8.Valid(u.tail) {
				return u.encodingError()
			}
			u.tail = u.tail[:0]
		}
	}
	// A character has at most four bytes, so an incomplete one begins in the last three.
	for i := len(p) - 1; i >= 0 && i >= len(p)-3; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				u.tail = append(u.tail, p[i:]...)
				p = p[:i]
			}
			break
		}
	}
	if !utf8.Valid(p) {
		for len(p) > 0 {
			r, size := utf8.DecodeRune(p)
			if r == utf8.RuneError && size == 1 {
				break
			}
			if r == '\n' {
				u.line++
			}
			p = p[size:]
		}
		return u.encodingError()
	}
	u.line += bytes.Count(p, []byte{'\n'})
	return nil
}
