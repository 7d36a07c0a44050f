package segment

// How numbers and lists of numbers are encoded: varints, bit-packed blocks, and a checksum at the
// end of everything that is stored.

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendChecksum appends the checksum of data.
func appendChecksum(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// verifyChecksum verifies the checksum at the end of data and returns data without it.
func verifyChecksum(data []byte, what string) ([]byte, error) {
	n := len(data) - 4
	if n < 0 || crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(data[n:]) {
		return nil, fmt.Errorf("%w: the checksum of a %s does not match", ErrCorrupt, what)
	}
	return data[:n], nil
}

// reader decodes data. After the first failure all that it reads is zero.
type reader struct {
	data   []byte
	pos    int
	failed bool
}

func (r *reader) fail() { r.failed = true; r.pos = len(r.data) }

func (r *reader) uvarint() uint64 {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 {
		r.pos++
		return uint64(r.data[r.pos-1])
	}
	return r.longUvarint()
}

func (r *reader) longUvarint() uint64 {
	v, n := binary.Uvarint(r.data[r.pos:])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.pos += n
	return v
}

// number reads a number that is at most limit.
func (r *reader) number(limit uint64) int {
	v := r.uvarint()
	if v > limit {
		r.fail()
		return 0
	}
	return int(v)
}

// count reads a number of elements that take at least size bytes each, so that a corrupt number
// cannot make the caller allocate much more than the data's length.
func (r *reader) count(size int) int {
	return r.number(uint64((len(r.data) - r.pos) / size))
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.data)-r.pos {
		r.fail()
		return nil
	}
	r.pos += n
	return r.data[r.pos-n : r.pos]
}

// packWidth returns how many bits the largest of values needs.
func packWidth(values []uint32) int {
	var all uint32
	for _, v := range values {
		all |= v
	}
	return bits.Len32(all)
}

// packedBytes returns the size of n packed values of a width.
func packedBytes(n, width int) int { return (n*width + 7) / 8 }

// pack appends values, each in width bits, lowest bits first.
func pack(out []byte, values []uint32, width int) []byte {
	var buffer uint64
	filled := 0
	for _, v := range values {
		buffer |= uint64(v) << filled
		filled += width
		for filled >= 8 {
			out = append(out, byte(buffer))
			buffer >>= 8
			filled -= 8
		}
	}
	if filled > 0 {
		out = append(out, byte(buffer))
	}
	return out
}

// Slack is how many bytes unpack may read after the packed values.
const Slack = 8

// unpack fills out with values of a width of up to 32 bits, and adds more to each. data must have
// Slack bytes after the values.
func unpack(out []uint32, data []byte, width int, more uint32) {
	mask := uint64(1)<<width - 1
	if width <= 8 {
		// Eight values take width bytes.
		for len(out) >= 8 {
			v := binary.LittleEndian.Uint64(data)
			data = data[width:]
			for i := range 8 {
				out[i] = uint32(v&mask) + more
				v >>= width & 63
			}
			out = out[8:]
		}
	}
	bit := 0
	for i := range out {
		out[i] = uint32(binary.LittleEndian.Uint64(data[bit>>3:])>>(bit&7)&mask) + more
		bit += width
	}
}

// unpackOne returns the i-th value, as unpack does with more = 0.
func unpackOne(data []byte, width, i int) uint32 {
	bit := i * width
	return uint32(binary.LittleEndian.Uint64(data[bit>>3:]) >> (bit & 7) & (1<<width - 1))
}

// unpackSlots fills out with first and the slots after it. data has their differences less one,
// packed as for unpack. It returns the last slot, which may be too large for out.
func unpackSlots(out []uint32, data []byte, width int, first uint32) (last uint64) {
	slot := uint64(first)
	out[0] = first
	out = out[1:]
	mask := uint64(1)<<width - 1
	if width <= 8 {
		// Eight values take width bytes.
		for len(out) >= 8 {
			v := binary.LittleEndian.Uint64(data)
			data = data[width:]
			for i := range 8 {
				slot += v&mask + 1
				out[i] = uint32(slot)
				v >>= width & 63
			}
			out = out[8:]
		}
	}
	bit := 0
	for i := range out {
		slot += binary.LittleEndian.Uint64(data[bit>>3:])>>(bit&7)&mask + 1
		out[i] = uint32(slot)
		bit += width
	}
	return slot
}
