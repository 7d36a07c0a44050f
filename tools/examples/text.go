package main

// This file writes plain text in encodings other than UTF-8, with the line ends
// that the programs that use those encodings write.

import (
	"bytes"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func makeUTF16(content []byte) ([]byte, error) {
	return encodeText(content, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM))
}

func makeWindows1252(content []byte) ([]byte, error) {
	return encodeText(content, charmap.Windows1252)
}

func encodeText(content []byte, to encoding.Encoding) ([]byte, error) {
	return to.NewEncoder().Bytes(bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n")))
}
