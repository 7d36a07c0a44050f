package tokenizer

// This file is SentencePiece's compiled table of replacements (the normalizer Precompiled): a
// double-array trie of byte strings, and their replacements.

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

type precompiled struct {
	trie  []uint32
	texts []byte // each ends with a 0
}

func readPrecompiled(encoded string) (*precompiled, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("precompiled_charsmap: %w", err)
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("precompiled_charsmap: has %d bytes", len(data))
	}
	size := int(binary.LittleEndian.Uint32(data))
	if size%4 != 0 || size < 4 || size > len(data)-4 {
		return nil, fmt.Errorf("precompiled_charsmap: a trie of %d bytes in %d", size, len(data))
	}
	p := &precompiled{trie: make([]uint32, size/4), texts: data[4+size:]}
	for i := range p.trie {
		p.trie[i] = binary.LittleEndian.Uint32(data[4+4*i:])
	}
	if !utf8.Valid(p.texts) {
		return nil, fmt.Errorf("precompiled_charsmap: its texts are not UTF-8")
	}
	return p, nil
}

// find returns the replacement of the shortest prefix of key in the trie. As in the tokenizers
// library, it replaces the whole key.
func (p *precompiled) find(key []byte) ([]byte, bool) {
	unit := p.trie[0]
	at := offset(unit)
	for _, c := range key {
		if c == 0 {
			return nil, false
		}
		if at ^= uint32(c); int(at) >= len(p.trie) {
			return nil, false
		}
		if unit = p.trie[at]; unit&(1<<31|0xFF) != uint32(c) {
			return nil, false
		}
		if at ^= offset(unit); int(at) >= len(p.trie) {
			return nil, false
		}
		if unit>>8&1 == 1 {
			start := int(p.trie[at] & (1<<31 - 1))
			if start > len(p.texts) {
				return nil, false
			}
			text, _, _ := bytes.Cut(p.texts[start:], []byte{0})
			return text, true
		}
	}
	return nil, false
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// maxCluster is the length in bytes from which a cluster is only looked up character by character.
const maxCluster = 6

// normalize replaces clusters of characters as a whole, or otherwise each of their characters.
func (p *precompiled) normalize(b buffer) buffer {
	changes := make([]change, 0, len(b.text))
	removed, modified := 0, false
	replace := func(old int, text []byte) {
		modified = true
		first := len(changes)
		for _, r := range string(text) {
			changes = append(changes, change{r: r})
		}
		switch added := len(changes) - first - old; {
		case added > 0:
			for i := len(changes) - added; i < len(changes); i++ {
				changes[i].by = 1
			}
		case added < 0 && len(changes) == 0:
			removed -= added
		case added < 0:
			changes[len(changes)-1].by += added
		}
	}
	clusters(b.text, func(cluster []byte) {
		if len(cluster) < maxCluster {
			if text, ok := p.find(cluster); ok {
				replace(utf8.RuneCount(cluster), text)
				return
			}
		}
		for len(cluster) > 0 {
			r, size := utf8.DecodeRune(cluster)
			if text, ok := p.find(cluster[:size]); ok {
				replace(1, text)
			} else {
				changes = append(changes, change{r: r})
			}
			cluster = cluster[size:]
		}
	})
	if !modified {
		return b
	}
	return b.transform(changes, removed)
}

// clusters calls yield with each grapheme cluster (UAX 29), in order.
func clusters(text []byte, yield func([]byte)) {
	for i := 0; i < len(text); {
		// Two ASCII characters never form a cluster, except CR LF.
		if c := text[i]; c < utf8.RuneSelf && c != '\r' && (i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
			yield(text[i : i+1])
			i++
			continue
		}
		end := i + 1 // up to a boundary between two such characters
		for end < len(text) && (text[end-1] >= utf8.RuneSelf || text[end] >= utf8.RuneSelf || text[end-1] == '\r') {
			end++
		}
		for segments := graphemes.FromBytes(text[i:end]); segments.Next(); {
			yield(segments.Value())
		}
		i = end
	}
}
