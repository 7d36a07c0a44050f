package parse

// Reads tesseract's output: its TSV of words, and its report of a page's orientation.

import (
	"bytes"
	"fmt"
	"image"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Columns of tesseract's TSV.
const (
	tsvLevel = iota
	tsvPage
	tsvBlock
	tsvParagraph
	tsvLine
	tsvWord
	tsvLeft
	tsvTop
	tsvWidth
	tsvHeight
	tsvConfidence
	tsvText
	tsvColumns
)

// wordLevel is the level of rows that are words.
const wordLevel = "5"

// wordsOf parses the TSV and returns the words of each line, lines in reading order.
func wordsOf(tsv []byte) ([][]recognisedWord, error) {
	var out [][]recognisedWord
	last := ""
	for row := range bytes.Lines(tsv) {
		fields := strings.Split(strings.TrimRight(string(row), "\r\n"), "\t")
		if len(fields) != tsvColumns || fields[tsvLevel] != wordLevel {
			continue
		}
		var number [4]int
		for i := range number {
			n, err := strconv.Atoi(fields[tsvLeft+i])
			if err != nil || n < 0 || n > 1<<20 {
				return nil, fmt.Errorf("tesseract wrote %q as a word's place", fields[tsvLeft+i])
			}
			number[i] = n
		}
		confidence, err := strconv.ParseFloat(fields[tsvConfidence], 64)
		if err != nil {
			return nil, fmt.Errorf("tesseract wrote %q as a confidence", fields[tsvConfidence])
		}
		w := recognisedWord{
			text:       squeeze(fields[tsvText]),
			box:        image.Rect(number[0], number[1], number[0]+number[2], number[1]+number[3]),
			confidence: min(max(confidence/100, 0), 1),
		}
		if w.text == "" || w.box.Empty() {
			continue
		}
		if line := strings.Join(fields[tsvPage:tsvWord], " "); line != last || len(out) == 0 {
			out, last = append(out, nil), line
		}
		out[len(out)-1] = append(out[len(out)-1], w)
	}
	return out, nil
}

var rotation = regexp.MustCompile(`(?m)^Rotate: (90|180|270)$`)

// orientationOf returns how many quarter turns, clockwise, make a page upright, or 0 if tesseract
// does not know.
func orientationOf(said []byte) int {
	found := rotation.FindSubmatch(said)
	if found == nil {
		return 0
	}
	degrees, _ := strconv.Atoi(string(found[1])) // the expression matches digits only
	return degrees / 90
}

func hasText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}
