package parse

// Zip containers: listing their parts and reading them within limits.

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-rag/sluice/schema"
)

// expansionFloor is the size in bytes up to which the ratio of expansion is not checked.
const expansionFloor = 10 << 20

// detectZIP returns the format of a zip container, and rejects containers that expand beyond the
// limits.
func detectZIP(data []byte, limits Limits) (detected, error) {
	c, err := openZIP(bytes.NewReader(data), int64(len(data)), limits)
	if err != nil {
		return detected{}, err
	}
	f, err := c.kind()
	return detected{format: f}, err
}

// kind returns the format of a zip container: that of a document, or an archive.
func (c *container) kind() (format, error) {
	switch {
	case c.has("word/document.xml"), c.has("word/document2.xml"), c.has("[Content_Types].xml") && c.hasPrefix("word/"):
		return formatDOCX, nil
	case c.has("xl/workbook.bin"):
		return "", fail(schema.ReasonUnsupported, "It is an Excel workbook in the binary format. Save it as XLSX and send it again.")
	case c.hasPrefix("xl/") && (c.has("[Content_Types].xml") || c.has("xl/workbook.xml")):
		return formatXLSX, nil
	case c.hasPrefix("ppt/") && (c.has("[Content_Types].xml") || c.has("ppt/presentation.xml")):
		return formatPPTX, nil
	case c.has("content.xml") && (c.has("mimetype") || c.has("META-INF/manifest.xml")), c.has("encrypted-package"):
		return detectODF(c)
	case c.has("META-INF/container.xml"):
		return formatEPUB, nil
	}
	switch {
	case c.has("[Content_Types].xml"):
		return "", unsupported("an Office file that is not a document, workbook or presentation")
	case c.has("Index/Document.iwa"):
		return "", unsupported("a file of Pages, Numbers or Keynote")
	case c.has("META-INF/MANIFEST.MF"):
		return "", unsupported("a program")
	}
	return formatZIP, nil
}

// container is a zip file whose declared sizes are within the limits.
type container struct {
	files  []*zip.File
	limits Limits
	size   int64 // of the container
	left   int64 // bytes that may still be read from the container

	declared uint64 // declared size of all contents in bytes
}

// openContainer opens a document. A document with an encrypted part is rejected.
func openContainer(data []byte, limits Limits) (*container, error) {
	c, err := openZIP(bytes.NewReader(data), int64(len(data)), limits)
	if err != nil {
		return nil, err
	}
	for _, f := range c.files {
		if f.Flags&zipEncrypted != 0 {
			return nil, fail(schema.ReasonEncrypted, "The document is encrypted. Remove its password and send it again.")
		}
	}
	return c, nil
}

// zipEncrypted is the flag of an encrypted entry.
const zipEncrypted = 1

func openZIP(data io.ReaderAt, size int64, limits Limits) (*container, error) {
	r, err := zip.NewReader(data, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fail(schema.ReasonBroken, "The zip container is damaged or cut off. Save the document again and send that.").because(err)
	}
	c := &container{files: r.File, limits: limits, size: size, left: limits.ExpandedBytes}
	if len(r.File) > limits.Entries {
		return nil, fail(schema.ReasonTooLarge, "The container has %d entries; the limit is %d.", len(r.File), limits.Entries)
	}
	for _, f := range r.File {
		if c.declared += f.UncompressedSize64; c.declared > uint64(limits.ExpandedBytes) || f.UncompressedSize64 > uint64(limits.ExpandedBytes) {
			return nil, fail(schema.ReasonTooLarge, "The container expands to more than %s, with its entry %q.", schema.FormatBytes(limits.ExpandedBytes), f.Name)
		}
	}
	if err := c.checkRatio(int64(c.declared)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *container) checkRatio(expanded int64) error {
	if expanded > expansionFloor && expanded/max(c.size, 1) >= int64(c.limits.Expansion) {
		return fail(schema.ReasonTooLarge, "The container expands to %d times its size; the limit is %d times. It looks like a zip bomb.",
			expanded/max(c.size, 1), c.limits.Expansion)
	}
	return nil
}

func (c *container) has(name string) bool { return c.find(name) != nil }

func (c *container) find(name string) *zip.File {
	for _, f := range c.files {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func (c *container) hasPrefix(prefix string) bool {
	for _, f := range c.files {
		if len(f.Name) > len(prefix) && f.Name[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// open returns a reader of a part, or nil if the part does not exist. Declared sizes are not
// trusted: reading ends at the limits.
func (c *container) open(name string) (io.ReadCloser, error) {
	f := c.find(name)
	if f == nil {
		return nil, nil
	}
	return c.openFile(f)
}

func (c *container) openFile(f *zip.File) (io.ReadCloser, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fail(schema.ReasonBroken, "Part %s of the document is damaged. Save the document again and send that.", f.Name).because(err)
	}
	return &boundedPart{r: r, c: c, name: f.Name}, nil
}

type boundedPart struct {
	r    io.ReadCloser
	c    *container
	name string
	read int64
}

func (b *boundedPart) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	b.c.left -= int64(n)
	if b.c.left < 0 {
		return n, fail(schema.ReasonTooLarge, "The container expands to more than %s.", schema.FormatBytes(b.c.limits.ExpandedBytes))
	}
	if e := b.c.checkRatio(b.read); e != nil {
		return n, e
	}
	if err != nil && err != io.EOF {
		err = fail(schema.ReasonBroken, "Part %s of the document is damaged. Save the document again and send that.", b.name).because(err)
	}
	return n, err
}

func (b *boundedPart) Close() error {
	if err := b.r.Close(); err != nil {
		return fmt.Errorf("closing part %s: %w", b.name, err)
	}
	return nil
}
