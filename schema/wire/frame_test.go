package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// framed returns the samples that are frames.
func framed(t testing.TB) (out []any) {
	t.Helper()
	for _, m := range samples {
		data, err := wire.EncodeFrame(m)
		if err != nil {
			t.Fatal(err)
		}
		if wire.IsFrame(data) {
			out = append(out, m)
		}
	}
	return out
}

func TestFramesAreGolden(t *testing.T) {
	all := framed(t)
	if len(all) < 11 {
		t.Fatalf("%d kinds of messages are frames", len(all))
	}
	for _, m := range all {
		name := strings.TrimPrefix(reflect.TypeOf(m).String(), "wire.")
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.EncodeFrame(m)
			if err != nil {
				t.Fatal(err)
			}
			if after, err := json.Marshal(m); err != nil || !bytes.Equal(before, after) {
				t.Fatalf("writing changed the message: %s, %v", after, err)
			}
			file := filepath.Join("testdata", name+".frame")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the format changed (go test ./schema/wire -update, after thought):\n%q", got)
			}
			for form, data := range map[string][]byte{"frame": want, "JSON": before} {
				back := reflect.New(reflect.TypeOf(m))
				if err := wire.Read(data, back.Interface()); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(back.Elem().Interface(), m) {
					t.Errorf("the %s is read back as %+v", form, back.Elem())
				}
			}
			if head := wire.HeadOf(want); !json.Valid(head) || !bytes.HasPrefix(head, []byte(`{"v":1`)) {
				t.Errorf("its head is %s", head)
			}
		})
	}
}

// TestFramesThatEndAnywhereAreRefused: truncated frames and frames with trailing bytes are refused.
func TestFramesThatEndAnywhereAreRefused(t *testing.T) {
	for _, m := range framed(t) {
		data, err := wire.EncodeFrame(m)
		if err != nil {
			t.Fatal(err)
		}
		for n := range data {
			if err := wire.Read(data[:n], reflect.New(reflect.TypeOf(m)).Interface()); !errors.Is(err, schema.ErrInvalid) {
				t.Fatalf("%T: the first %d of %d bytes: %v", m, n, len(data), err)
			}
		}
		if err := wire.Read(append(data, 0), reflect.New(reflect.TypeOf(m)).Interface()); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "follow") {
			t.Errorf("%T: a byte more: %v", m, err)
		}
	}
}

func TestFramesWithInvalidLengthsAreRefused(t *testing.T) {
	frame := func(head, parts string) []byte {
		return []byte("\x00SF1" + string(rune(len(head))) + head + parts)
	}
	for name, c := range map[string]struct {
		data []byte
		into any
		says string
	}{
		"more texts than bytes":    {frame(`{"v":1}`, "\xff\xff\xff\x7f"), &wire.EncodeRequest{}, "part 1"},
		"a number over 31 bits":    {frame(`{"v":1}`, "\xff\xff\xff\xff\xff\x7f"), &wire.EncodeRequest{}, "31 bits"},
		"a text too long":          {frame(`{"v":1}`, "\x01\x09abc"), &wire.EncodeRequest{}, "texts of 9 bytes, but only 3 bytes are left"},
		"not UTF-8":                {frame(`{"v":1}`, "\x01\x01\xff"), &wire.EncodeRequest{}, "UTF-8"},
		"a character in two texts": {frame(`{"v":1}`, "\x02\x01\x01\xc3\xa4"), &wire.EncodeRequest{}, "inside a character"},
		"half a vector":            {frame(`{"v":1,"vectors":{"dimension":2,"data":""}}`, "\x02\x01\x00\x00\x00\x00"), &wire.EncodeReply{}, "dimension 2"},
		"no head":                  {frame(``, "\x00"), &wire.EncodeRequest{}, "JSON"},
		"a frame without parts":    {frame(`{"v":1}`, ""), &wire.DetectRequest{}, "where JSON is expected"},
		"more lists than texts":    {frame(`{"v":1}`, "\x01\x02\x01\x01a"), &wire.SegmentRequest{}, "1 texts, and its lists have 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := wire.Read(c.data, c.into); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
	if _, err := wire.Decode[wire.EncodeRequest](frame(`{"v":9}`, "\x00")); !errors.Is(err, wire.ErrVersion) {
		t.Errorf("a newer version gave %v", err)
	}
}

// TestInvalidUTF8IsEncodedLikeJSON: both forms write the same text.
func TestInvalidUTF8IsEncodedLikeJSON(t *testing.T) {
	texts := []string{"a\xff\xfeb", "\xe4", "plain"}
	read := func(write func(any) ([]byte, error)) string {
		data, err := write(wire.EncodeRequest{Envelope: wire.Header(), Texts: texts})
		if err != nil {
			t.Fatal(err)
		}
		back, err := wire.Decode[wire.EncodeRequest](data)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%q", back.Texts)
	}
	if a, b := read(wire.Encode), read(wire.EncodeFrame); a != b {
		t.Errorf("JSON has %s, a frame %s", a, b)
	}
	if texts[0] != "a\xff\xfeb" {
		t.Errorf("the caller's texts are %q", texts)
	}
}

// FuzzFrame: any input is refused, or reads the same after it is written again.
func FuzzFrame(f *testing.F) {
	kinds := framed(f)
	for i, m := range kinds {
		data, err := wire.EncodeFrame(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, data)
	}
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		if kind < 0 || kind >= len(kinds) {
			return
		}
		of := reflect.TypeOf(kinds[kind])
		once := reflect.New(of)
		if err := wire.Read(data, once.Interface()); err != nil {
			return
		}
		again, err := wire.EncodeFrame(once.Elem().Interface())
		if err != nil {
			if strings.Contains(err.Error(), "NaN") || strings.Contains(err.Error(), "Inf") {
				return // of a number in the head, for which JSON has no form
			}
			t.Fatal(err)
		}
		twice := reflect.New(of)
		if err := wire.Read(again, twice.Interface()); err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		third, err := wire.EncodeFrame(twice.Elem().Interface())
		if err != nil || !bytes.Equal(again, third) {
			t.Errorf("%q is written again as %q, %v", again, third, err)
		}
	})
}

// BenchmarkMessages writes and reads the messages of a batch of 500 passages.
func BenchmarkMessages(b *testing.B) {
	vectors := wire.Vectors{Dimension: 256, Data: make([]float32, 500*256)}
	for i := range vectors.Data {
		vectors.Data[i] = float32(math.Sin(float64(i)))
	}
	texts := make([]string, 500)
	for i := range texts {
		texts[i] = strings.Repeat("Some words of a passage, \"quoted\" now and then.\n", 16)
	}
	for _, form := range []struct {
		name  string
		write func(any) ([]byte, error)
	}{{"JSON", wire.Encode}, {"frame", wire.EncodeFrame}} {
		run := func(name string, m any, into func() any) {
			b.Run(form.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					data, err := form.write(m)
					if err == nil {
						err = wire.Read(data, into())
					}
					if err != nil {
						b.Fatal(err)
					}
					size = len(data)
				}
				b.ReportMetric(float64(size), "bytes/message")
			})
		}
		run("texts", wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Texts: texts}, func() any { return &wire.EncodeRequest{} })
		run("vectors", wire.EncodeReply{Envelope: wire.Header(), Vectors: vectors}, func() any { return &wire.EncodeReply{} })
	}
}
