package parse

// Zip containers: what is in one, and reading its parts within limits.

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-rag/sluice/schema"
)

// expansionFloor is what a container may expand to whatever the ratio.
const expansionFloor = 10 << 20

// detectZIP tells the formats that are zip containers, and
// refuses containers that expand beyond the limits.
func detectZIP(data []byte, limits Limits) (detected, error) {
	c, err := openContainer(data, limits)
	if err != nil {
		return detected{}, err
	}
	switch {
	case c.has("word/document.xml"), c.has("word/document2.xml"), c.has("[Content_Types].xml") && c.hasPrefix("word/"):
		return detected{format: formatDOCX}, nil
	case c.has("xl/workbook.bin"):
		return detected{}, fail(schema.ReasonUnsupported, "It is an Excel workbook in the binary format. Save it as XLSX and send it again.")
	case c.hasPrefix("xl/"):
		return detected{format: formatXLSX}, nil
	case c.hasPrefix("ppt/"):
		return detected{format: formatPPTX}, nil
	case c.has("content.xml") && (c.has("mimetype") || c.has("META-INF/manifest.xml")), c.has("encrypted-package"):
		f, err := detectODF(c)
		return detected{format: f}, err
	case c.has("META-INF/container.xml"):
		return detected{format: formatEPUB}, nil
	}
	return detected{}, unsupported("a zip archive")
}

// container is a zip file whose declared sizes are within the limits.
type container struct {
	files  []*zip.File
	limits Limits
	size   int   // of the container
	left   int64 // bytes that may still be read from it
}

func openContainer(data []byte, limits Limits) (*container, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fail(schema.ReasonBroken, "The zip container is damaged or cut off. Save the document again and send that.").because(err)
	}
	c := &container{files: r.File, limits: limits, size: len(data), left: limits.ExpandedBytes}
	if len(r.File) > limits.Entries {
		return nil, fail(schema.ReasonTooLarge, "The container has %d entries; the limit is %d.", len(r.File), limits.Entries)
	}
	var total uint64
	for _, f := range r.File {
		if f.Flags&1 != 0 {
			return nil, fail(schema.ReasonEncrypted, "The document is encrypted. Remove its password and send it again.")
		}
		if total += f.UncompressedSize64; total > uint64(limits.ExpandedBytes) || f.UncompressedSize64 > uint64(limits.ExpandedBytes) {
			return nil, fail(schema.ReasonTooLarge, "The container expands to more than %s.", schema.FormatBytes(limits.ExpandedBytes))
		}
	}
	if err := c.checkRatio(int64(total)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *container) checkRatio(expanded int64) error {
	if expanded > expansionFloor && expanded/int64(max(c.size, 1)) >= int64(c.limits.Expansion) {
		return fail(schema.ReasonTooLarge, "The container expands to %d times its size; the limit is %d times. It looks like a zip bomb.",
			expanded/int64(max(c.size, 1)), c.limits.Expansion)
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

// open returns a reader of a part; nil when there is none. What the container
// says about sizes is not believed: reading ends at the limits.
func (c *container) open(name string) (io.ReadCloser, error) {
	f := c.find(name)
	if f == nil {
		return nil, nil
	}
	r, err := f.Open()
	if err != nil {
		return nil, fail(schema.ReasonBroken, "Part %s of the document is damaged. Save the document again and send that.", name).because(err)
	}
	return &boundedPart{r: r, c: c, name: name}, nil
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
