//go:build ocr

package parse

import (
	"os"
	"strconv"
	"testing"
)

// TestAllFilingsAreReadAsTheyArePrinted checks every page, or every OCR_EVERY-th page.
func TestAllFilingsAreReadAsTheyArePrinted(t *testing.T) {
	every := 1
	if s := os.Getenv("OCR_EVERY"); s != "" {
		var err error
		if every, err = strconv.Atoi(s); err != nil || every < 1 {
			t.Fatalf("OCR_EVERY is %q", s)
		}
	}
	var filings []filing
	at := 0
	for _, path := range filingsOf(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := filing{path: path, pages: []int{}}
		p := openPaper(t, data)
		_ = p.instance.Kill() // only the number of its pages was needed
		for i := range p.pages {
			if at++; at%every == 0 {
				f.pages = append(f.pages, i)
			}
		}
		filings = append(filings, f)
	}
	pages, share := readFilings(t, filings)
	t.Logf("%d of %d pages: %.4f of the characters are wrong", pages, at, share)
	if pages == 0 || share > worstCharacters/100.0 {
		t.Errorf("of %d pages %.3f of the characters are wrong", pages, share)
	}
}
