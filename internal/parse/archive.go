package parse

// ZIP archives of documents. The files are parsed one after the other, each under its path.

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/sluice-rag/sluice/schema"
)

// ArchiveFile is a file in a ZIP archive.
type ArchiveFile struct {
	Path    string // relative to the root of the archive, with slashes
	Bytes   int64  // declared size; reading more is an error
	Refused error  // why it can't be read; the other files can

	f *zip.File
	c *container
}

// Open returns a reader of the file. Several files may be open at a time.
func (a ArchiveFile) Open() (io.ReadCloser, error) {
	copied := *a.c // with its own count of bytes: the file may be read more than once
	return copied.openFile(a.f)
}

// OpenArchive returns the files of a ZIP archive in its order, without hidden ones. It returns nil
// for a file that is a document (DOCX, EPUB and others are ZIP files, too), and an *Error for an
// archive that is over a limit, damaged, or has an entry whose path leads out of it. r must stay
// readable while files are opened and read.
func OpenArchive(r io.ReaderAt, size int64, limits Limits) ([]ArchiveFile, error) {
	c, err := openZIP(r, size, limits.withDefaults())
	if err != nil {
		return nil, err
	}
	if kind, err := c.kind(); err != nil || kind != formatZIP {
		return nil, nil // the parser reports the error
	}
	return c.archive()
}

// archive returns the files of an archive, without folders and hidden files.
func (c *container) archive() ([]ArchiveFile, error) {
	var out []ArchiveFile
	seen := map[string]bool{}
	for _, f := range c.files {
		name, err := entryPath(f.Name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(f.Name, "/") || strings.HasSuffix(f.Name, `\`) || f.Mode().IsDir() || hiddenEntry(name) {
			continue
		}
		if seen[name] {
			return nil, fail(schema.ReasonBroken, "The archive has the entry %q twice. Create it again.", name)
		}
		seen[name] = true
		a := ArchiveFile{Path: name, Bytes: int64(f.UncompressedSize64), f: f, c: c}
		switch {
		case f.Flags&zipEncrypted != 0:
			a.Refused = fail(schema.ReasonEncrypted, "It is encrypted. Create the archive again without a password.")
		case f.Mode()&fs.ModeType != 0:
			a.Refused = fail(schema.ReasonUnsupported, "It is a link or another special file.")
		case f.Method != zip.Store && f.Method != zip.Deflate:
			a.Refused = fail(schema.ReasonUnsupported, "Its compression method (%d) is not supported. Create the archive again with Deflate.", f.Method)
		case a.Bytes > c.limits.Bytes:
			a.Refused = tooLarge(a.Bytes, c.limits)
		}
		out = append(out, a)
	}
	return out, nil
}

// entryPath returns an entry's name as a path relative to the root of the archive. It rejects a
// path that leads out of the archive.
func entryPath(name string) (string, error) {
	p := name
	if !utf8.ValidString(p) {
		p, _ = charmap.CodePage437.NewDecoder().String(p) // the encoding of names that are not in UTF-8
	}
	if !strings.Contains(p, "/") {
		p = strings.ReplaceAll(p, `\`, "/") // old archives of Windows
	}
	parts := strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' })
	drive := len(p) > 1 && p[1] == ':'
	if drive || slices.Contains(parts, "..") || strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\x00\n") {
		return "", fail(schema.ReasonBroken, "The path of entry %q leads out of the archive. Create the archive again, with paths below one folder.", name)
	}
	return path.Clean(p), nil
}

// hiddenEntry reports whether a file is hidden or made by an operating system, and so not meant to
// be read.
func hiddenEntry(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, ".") || part == "__MACOSX" || part == "Thumbs.db" {
			return true
		}
	}
	return false
}

// namedEntries is how many entries that were not read are named in warnings.
const namedEntries = 15

func parseArchive(d *document, data []byte) error {
	if d.in.archives >= maxArchives {
		return fail(schema.ReasonTooLarge, "Archives are nested more than %d deep. Unpack the archive first.", maxArchives)
	}
	c, err := openZIP(bytes.NewReader(data), int64(len(data)), d.limits)
	if err != nil {
		return err
	}
	files, err := c.archive()
	if err != nil {
		return err
	}
	in := d.in.deeper()
	in.archives++
	read := 0
	var first *Error
	refused := 0
	for _, a := range files {
		parsed, err := d.entry(c, a, in)
		var e *Error
		switch {
		case errors.As(err, &e) && a.Refused == nil && (e.Reason.Code == schema.ReasonTooLarge || e.Reason.Code == schema.ReasonTimeout):
			return fail(e.Reason.Code, "Entry %q: %s", a.Path, e.Reason.Message).because(e.cause)
		case errors.As(err, &e):
			if refused++; refused <= namedEntries {
				d.warn(fmt.Sprintf("Entry %q was not read: %s", a.Path, e.Reason.Message))
			}
			if first == nil {
				first = fail(e.Reason.Code, "Nothing in the archive was read. Entry %q: %s", a.Path, e.Reason.Message)
			}
			continue
		case err != nil:
			return err
		}
		read++
		for _, w := range parsed.Warnings {
			d.warn(a.Path + ": " + w)
		}
		d.heading(1, a.Path)
		if err := d.adopt(&document{out: parsed}, 1); err != nil {
			return err
		}
	}
	if more := refused - namedEntries; more > 0 {
		// This warning replaces the last one if there are 20 already.
		d.out.Warnings = append(d.out.Warnings[:min(len(d.out.Warnings), 19)], fmt.Sprintf("%d more entries were not read.", more))
	}
	if read == 0 && first != nil {
		return first
	}
	return d.err
}

// entry reads a file of an archive.
func (d *document) entry(c *container, a ArchiveFile, in enclosure) (schema.Parsed, error) {
	if a.Refused != nil {
		return schema.Parsed{}, a.Refused
	}
	if !d.withinTime() {
		return schema.Parsed{}, d.err
	}
	r, err := c.openFile(a.f)
	if err != nil {
		return schema.Parsed{}, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		return schema.Parsed{}, err
	}
	return d.enclosed(a.Path, "", data, in)
}
