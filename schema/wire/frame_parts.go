package wire

// This file has the kinds of parts of frames. The same method writes and reads a kind, so that the
// two can't differ.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// partCodec writes or reads parts in sequence. After an error it reads nothing more.
type partCodec struct {
	data     []byte // written so far, or left to read
	decoding bool
	index    int // number of the current part, from 1
	err      error
}

// count writes or reads the number of entries that follow, of at least so many bytes each. A reader
// returns an error if the rest of the frame could not hold them, so a frame can't make it allocate
// more.
func (p *partCodec) count(n, bytes int) int {
	if !p.decoding {
		p.data = binary.AppendUvarint(p.data, uint64(n))
		return n
	}
	n = p.number(0)
	if p.err == nil && n > len(p.data)/bytes {
		p.err = fmt.Errorf("%d entries of at least %d bytes, but only %d bytes are left", n, bytes, len(p.data))
	}
	if p.err != nil {
		return 0
	}
	return n
}

// number writes or reads a number that is not negative.
func (p *partCodec) number(n int) int {
	if !p.decoding {
		p.data = binary.AppendUvarint(p.data, uint64(max(0, n)))
		return n
	}
	if p.err != nil {
		return 0
	}
	read, width := binary.Uvarint(p.data)
	if width <= 0 || read > math.MaxInt32 {
		p.err = errors.New("a number is cut off, or over 31 bits")
		return 0
	}
	p.data = p.data[width:]
	return int(read)
}

// texts is a part of texts. Invalid UTF-8 is written with U+FFFD, as in JSON.
func (p *partCodec) texts(all *[]string) {
	p.index++
	if !p.decoding {
		p.writeTexts(*all)
		*all = nil
		return
	}
	n := p.count(0, 1)
	lengths, total := make([]int, n), 0
	for i := range lengths {
		lengths[i] = p.number(0)
		total += lengths[i]
	}
	if p.err == nil && total > len(p.data) {
		p.err = fmt.Errorf("texts of %d bytes, but only %d bytes are left", total, len(p.data))
	}
	if p.err != nil || n == 0 {
		return
	}
	joined := string(p.data[:total]) // a single copy that all texts share
	if p.data = p.data[total:]; !utf8.ValidString(joined) {
		p.err = errors.New("its texts are not UTF-8")
		return
	}
	*all = make([]string, n)
	for i, length := range lengths {
		if length > 0 && !utf8.RuneStart(joined[0]) {
			p.err = fmt.Errorf("text %d begins inside a character", i)
			return
		}
		(*all)[i], joined = joined[:length], joined[length:]
	}
}

func (p *partCodec) writeTexts(all []string) {
	clean := func(s string) string {
		if utf8.ValidString(s) {
			return s
		}
		return string([]rune(s))
	}
	p.count(len(all), 1)
	total := 0
	for _, s := range all {
		n := len(clean(s))
		p.number(n)
		total += n
	}
	p.data = grow(p.data, total)
	for _, s := range all {
		p.data = append(p.data, clean(s)...)
	}
}

// grow returns data with room for n more bytes.
func grow(data []byte, n int) []byte {
	if cap(data)-len(data) >= n {
		return data
	}
	return append(make([]byte, 0, len(data)+n+64), data...)
}

// lists is a part of lists of texts.
func (p *partCodec) lists(all *[][]string) {
	p.index++
	n := p.count(len(*all), 1)
	if !p.decoding {
		var joined []string
		for _, list := range *all {
			p.number(len(list))
			joined = append(joined, list...)
		}
		*all = nil
		p.writeTexts(joined)
		return
	}
	lengths, total := make([]int, n), 0
	for i := range lengths {
		lengths[i] = p.number(0)
		total += lengths[i]
	}
	var joined []string
	p.texts(&joined)
	p.index--
	if p.err == nil && total != len(joined) {
		p.err = fmt.Errorf("%d texts, and its lists have %d", len(joined), total)
	}
	if p.err != nil || n == 0 {
		return
	}
	*all = make([][]string, n)
	for i, length := range lengths {
		(*all)[i], joined = joined[:length:length], joined[length:]
	}
}

// numbers is a part of numbers that are not negative.
func (p *partCodec) numbers(all *[]int) {
	p.index++
	n := p.count(len(*all), 1)
	if !p.decoding {
		for _, x := range *all {
			p.number(x)
		}
		*all = nil
		return
	}
	if n == 0 {
		return
	}
	*all = make([]int, n)
	for i := range *all {
		(*all)[i] = p.number(0)
	}
}

// numberLists is a part of lists of numbers that are not negative.
func (p *partCodec) numberLists(all *[][]int) {
	p.index++
	n := p.count(len(*all), 1)
	lists := slices.Clone(*all) // keep the caller's lists unchanged
	if p.decoding {
		lists = make([][]int, n)
	}
	for i := range lists {
		p.numbers(&lists[i])
		p.index--
	}
	*all = nil
	if p.decoding && n > 0 {
		*all = lists
	}
}

// floatLists is a part of lists of numbers.
func (p *partCodec) floatLists(all *[][]float32) {
	p.index++
	n := p.count(len(*all), 1)
	if !p.decoding {
		for i := range *all {
			p.row(&(*all)[i])
		}
		*all = nil
		return
	}
	if n == 0 {
		return
	}
	*all = make([][]float32, n)
	for i := range *all {
		p.row(&(*all)[i])
	}
}

// row writes or reads numbers. It reads an empty list instead of nil.
func (p *partCodec) row(all *[]float32) {
	n := p.count(len(*all), 4)
	if !p.decoding {
		p.data = grow(p.data, 4*n)
		for _, x := range *all {
			p.data = binary.LittleEndian.AppendUint32(p.data, math.Float32bits(x))
		}
		return
	}
	out := make([]float32, n)
	raw := p.data[:4*n]
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	*all, p.data = out, p.data[4*n:]
}

// vectors is a part of vectors.
func (p *partCodec) vectors(v *Vectors) {
	p.index++
	v.Dimension = p.number(v.Dimension)
	data := []float32(v.Data)
	p.row(&data)
	if !p.decoding {
		v.Data = nil
		return
	}
	if v.Data = data; p.err == nil {
		p.err = v.check()
	}
}

// windows is a part of lists of vectors.
func (p *partCodec) windows(all *[]Vectors) {
	p.index++
	n := p.count(len(*all), 2)
	lists := slices.Clone(*all)
	if p.decoding {
		lists = make([]Vectors, n)
	}
	for i := range lists {
		p.vectors(&lists[i])
		p.index--
	}
	*all = nil
	if p.decoding && n > 0 {
		*all = lists
	}
}

// links is a part of links, by window and then by passage.
func (p *partCodec) links(all *[][][]PassageLink) {
	p.index++
	windows := *all
	n := p.count(len(windows), 1)
	if p.decoding {
		windows = make([][][]PassageLink, n)
	}
	for i := range windows {
		passages := p.count(len(windows[i]), 1)
		if p.decoding {
			windows[i] = make([][]PassageLink, passages)
		}
		for j := range windows[i] {
			of := p.count(len(windows[i][j]), 5)
			if p.decoding {
				windows[i][j] = make([]PassageLink, of)
			}
			p.linksOf(windows[i][j])
		}
	}
	*all = nil
	if p.decoding && n > 0 {
		*all = windows
	}
}

func (p *partCodec) linksOf(links []PassageLink) {
	for i, l := range links {
		to := p.number(l.To)
		if !p.decoding {
			p.data = binary.LittleEndian.AppendUint32(p.data, math.Float32bits(l.Weight))
			continue
		}
		if p.err == nil && len(p.data) < 4 {
			p.err = errors.New("it ends in a link")
		}
		if p.err != nil {
			return
		}
		links[i] = PassageLink{To: to, Weight: math.Float32frombits(binary.LittleEndian.Uint32(p.data))}
		p.data = p.data[4:]
	}
}
