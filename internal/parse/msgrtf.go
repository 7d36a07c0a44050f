package parse

import (
	"encoding/binary"

	"github.com/sluice-rag/sluice/schema"
)

// rtfDictionary is the text that precedes every compressed text, which may refer to it (MS-OXRTFCP
// 2.1.2.1).
const rtfDictionary = `{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0` +
	"\r\n" + `\par \pard\plain\f0\fs20\b\i\u\tab\tx`

const (
	rtfPacked   = 0x75465A4C // "LZFu"
	rtfUnpacked = 0x414C454D // "MELA"
)

// unpackRTF decompresses the RTF of an Outlook message.
func unpackRTF(packed []byte, limits Limits) ([]byte, error) {
	broken := fail(schema.ReasonBroken, "The text of the e-mail is damaged. Save the e-mail again and send that.")
	if len(packed) < 16 {
		return nil, broken
	}
	in := packed[16:]
	switch binary.LittleEndian.Uint32(packed[8:]) {
	case rtfUnpacked:
		return in, nil
	case rtfPacked:
	default:
		return nil, broken
	}
	var window [4096]byte
	at := copy(window[:], rtfDictionary)
	var out []byte
	put := func(b byte) {
		window[at] = b
		at = (at + 1) % len(window)
		out = append(out, b)
	}
	for len(in) > 0 {
		control := in[0]
		in = in[1:]
		for bit := range 8 {
			if control>>bit&1 == 0 {
				if len(in) < 1 {
					return out, nil
				}
				put(in[0])
				in = in[1:]
				continue
			}
			if len(in) < 2 {
				return out, nil
			}
			ref := binary.BigEndian.Uint16(in)
			in = in[2:]
			from := int(ref >> 4)
			if from == at {
				return out, nil
			}
			for range int(ref&0xF) + 2 {
				put(window[from])
				from = (from + 1) % len(window)
			}
			if int64(len(out)) > limits.Bytes {
				return nil, fail(schema.ReasonTooLarge, "The text of the e-mail unpacks to more than %s.", schema.FormatBytes(limits.Bytes))
			}
		}
	}
	return out, nil
}
