package parse

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// TestSettingsHoldUntilTheyChange: a child gets its settings with the first file and with those for
// which they differ, and applies them to all.
func TestSettingsHoldUntilTheyChange(t *testing.T) {
	toChild, fromPool, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	toPool, fromChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var pages []int
	var data [][]byte
	ended := make(chan error, 1)
	heads := &bytes.Buffer{}
	go func() {
		ended <- serve(io.TeeReader(toChild, heads), fromChild, Confinement{}, func([]byte) {},
			func(_ context.Context, _, _ string, file []byte, l Limits, _ *ocrSession) (schema.Parsed, error) {
				pages, data = append(pages, l.Pages), append(data, file)
				return schema.Parsed{Title: "t"}, nil
			})
	}()
	c := &child{in: fromPool, out: bufio.NewReader(toPool)}
	large := bytes.Repeat([]byte("x"), 3*smallFrame)
	for i, n := range []int{5, 5, 7, 7, 5} {
		file := []byte("small")
		if i == 3 {
			file = large
		}
		req := request{Name: "a", Settings: &settings{Limits: Limits{Pages: n}}, data: file}
		rep, err := c.exchange(t.Context(), req, make(chan struct{}), func([]byte) {}, nil)
		if err != nil || rep.Parsed.Title != "t" {
			t.Fatalf("file %d: %+v, %v", i, rep, err)
		}
	}
	if err := fromPool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pages, []int{5, 5, 7, 7, 5}) {
		t.Errorf("the files were parsed with the settings %v", pages)
	}
	if !bytes.Equal(data[3], large) || string(data[4]) != "small" {
		t.Errorf("files arrived as %d and %d bytes", len(data[3]), len(data[4]))
	}
	if n := bytes.Count(heads.Bytes(), []byte(`"settings"`)); n != 3 {
		t.Errorf("settings were sent %d times", n)
	}
}
