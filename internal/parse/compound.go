package parse

// Compound files (MS-CFB, "OLE"): a file that contains folders and streams, used by Outlook and the
// old Office formats. The file itself declares the lengths of its chains of sectors and the order
// of its entries. These are not trusted beyond the size of the file, and cycles are rejected.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf16"

	"github.com/sluice-rag/sluice/schema"
)

const (
	cfbMiniSector = 64
	cfbMiniCutoff = 4096 // smaller streams are in the mini stream
	cfbEntrySize  = 128
	cfbEnd        = 0xFFFFFFFE // end of a chain
	cfbNone       = 0xFFFFFFFF // no entry
	cfbStorage    = 1
	cfbStream     = 2
)

// compoundFile is an open compound file.
type compoundFile struct {
	data    []byte
	sector  int // bytes
	fat     []uint32
	miniFAT []uint32
	mini    []byte // the stream that small streams are in
	entries []compoundEntry
	seen    []bool // entries that are in a folder
	left    int    // bytes that may still be read, since streams may share sectors
}

type compoundEntry struct {
	name               string
	kind               byte
	left, right, child uint32
	start              uint32
	size               uint64
}

// folder is a storage with its direct children.
type folder struct {
	streams map[string]compoundEntry
	folders []compoundEntry // in the order of their names
}

func brokenCompound(problem string) *Error {
	return fail(schema.ReasonBroken, "The file is damaged or cut off. Save it again and send that.").because(errors.New("compound file: " + problem))
}

// openCompound reads a file's tables and its directory.
func openCompound(data []byte) (*compoundFile, error) {
	if len(data) < 512 || !bytes.HasPrefix(data, magicOLE) {
		return nil, brokenCompound("no header")
	}
	le := binary.LittleEndian
	shift := le.Uint16(data[30:])
	if shift != 9 && shift != 12 {
		return nil, brokenCompound(fmt.Sprintf("sectors of 2^%d bytes", shift))
	}
	c := &compoundFile{data: data, sector: 1 << shift, left: 2 * len(data)}
	if err := c.readFAT(); err != nil {
		return nil, err
	}
	directory, err := c.chain(le.Uint32(data[48:]), math.MaxInt)
	if err != nil {
		return nil, err
	}
	for ; len(directory) >= cfbEntrySize; directory = directory[cfbEntrySize:] {
		c.entries = append(c.entries, readEntry(directory, shift))
	}
	if len(c.entries) == 0 {
		return nil, brokenCompound("no directory")
	}
	c.seen = make([]bool, len(c.entries))
	miniFAT, err := c.chain(le.Uint32(data[60:]), math.MaxInt)
	if err != nil {
		return nil, err
	}
	for ; len(miniFAT) >= 4; miniFAT = miniFAT[4:] {
		c.miniFAT = append(c.miniFAT, le.Uint32(miniFAT))
	}
	c.mini, err = c.chain(c.entries[0].start, int(min(c.entries[0].size, uint64(len(data)))))
	return c, err
}

func readEntry(b []byte, shift uint16) compoundEntry {
	le := binary.LittleEndian
	e := compoundEntry{kind: b[66], left: le.Uint32(b[68:]), right: le.Uint32(b[72:]), child: le.Uint32(b[76:]), start: le.Uint32(b[116:]), size: le.Uint64(b[120:])}
	if shift == 9 {
		e.size &= 0xFFFFFFFF // this version does not define the upper half
	}
	var name []uint16
	for i := 0; i < 62 && i+2 < int(le.Uint16(b[64:])); i += 2 {
		name = append(name, le.Uint16(b[i:]))
	}
	e.name = string(utf16.Decode(name))
	return e
}

// at returns a sector, or nil when the file has no sector of that number. The last sector may be
// cut off.
func (c *compoundFile) at(n uint32) []byte {
	begin := (int64(n) + 1) * int64(c.sector)
	if begin >= int64(len(c.data)) {
		return nil
	}
	return c.data[begin:min(begin+int64(c.sector), int64(len(c.data)))]
}

// readFAT reads the FAT, which gives the next sector of each sector.
func (c *compoundFile) readFAT() error {
	le := binary.LittleEndian
	sectors := len(c.data)/c.sector + 1
	add := func(list []byte) {
		for ; len(list) >= 4 && len(c.fat) < sectors; list = list[4:] {
			s := c.at(le.Uint32(list))
			for ; len(s) >= 4; s = s[4:] {
				c.fat = append(c.fat, le.Uint32(s))
			}
		}
	}
	add(c.data[76:512])
	next := le.Uint32(c.data[68:])
	for n := 0; next < cfbEnd && len(c.fat) < sectors; n++ {
		s := c.at(next)
		if n > sectors || len(s) < c.sector {
			return brokenCompound("its table of tables is cut off or runs in a circle")
		}
		add(s[:len(s)-4])
		next = le.Uint32(s[len(s)-4:])
	}
	return nil
}

// chain returns up to size bytes of the chain of sectors that starts at start.
func (c *compoundFile) chain(start uint32, size int) ([]byte, error) {
	var out []byte
	for n, at := 0, start; at < cfbEnd && len(out) < size; n++ {
		s := c.at(at)
		if s == nil || int64(at) >= int64(len(c.fat)) {
			return nil, brokenCompound("a chain of sectors leads out of the file")
		}
		if n > len(c.data)/c.sector {
			return nil, brokenCompound("a chain of sectors runs in a circle")
		}
		out = append(out, s[:min(len(s), size-len(out))]...)
		at = c.fat[at]
	}
	return out, nil
}

// miniChain is chain for a small stream.
func (c *compoundFile) miniChain(start uint32, size int) ([]byte, error) {
	var out []byte
	for at := start; len(out) < size; {
		begin := int64(at) * cfbMiniSector
		if begin >= int64(len(c.mini)) || int64(at) >= int64(len(c.miniFAT)) {
			return nil, brokenCompound("a chain of small sectors leads out of the file")
		}
		s := c.mini[begin:min(begin+cfbMiniSector, int64(len(c.mini)))]
		out = append(out, s[:min(len(s), size-len(out))]...)
		at = c.miniFAT[at]
	}
	return out, nil
}

// read returns a stream.
func (c *compoundFile) read(e compoundEntry) ([]byte, error) {
	if e.size > uint64(len(c.data)) {
		return nil, brokenCompound(fmt.Sprintf("stream %q has %d bytes, more than the file", e.name, e.size))
	}
	if c.left -= int(e.size); c.left < 0 {
		return nil, brokenCompound("its streams have more bytes than the file")
	}
	get := c.chain
	if e.size < cfbMiniCutoff {
		get = c.miniChain
	}
	b, err := get(e.start, int(e.size))
	if err == nil && len(b) < int(e.size) {
		err = brokenCompound(fmt.Sprintf("stream %q is cut off", e.name))
	}
	return b, err
}

// root returns the root folder. It must be called only once.
func (c *compoundFile) root() (folder, error) { return c.open(c.entries[0]) }

// open returns the direct children of a folder. Each entry may be in one folder only.
func (c *compoundFile) open(e compoundEntry) (folder, error) {
	f := folder{streams: map[string]compoundEntry{}}
	// The siblings form a binary tree, which is traversed in order.
	var above []uint32
	at := e.child
	for at != cfbNone || len(above) > 0 {
		if at != cfbNone {
			if int64(at) >= int64(len(c.entries)) {
				return f, brokenCompound("its directory leads out of the file")
			}
			if c.seen[at] {
				return f, brokenCompound("its directory runs in a circle")
			}
			c.seen[at] = true
			above = append(above, at)
			at = c.entries[at].left
			continue
		}
		entry := c.entries[above[len(above)-1]]
		above = above[:len(above)-1]
		switch entry.kind {
		case cfbStream:
			f.streams[entry.name] = entry
		case cfbStorage:
			f.folders = append(f.folders, entry)
		}
		at = entry.right
	}
	return f, nil
}
