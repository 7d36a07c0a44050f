package schema

import "testing"

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KB", 1536: "1.5 KB", 100 << 20: "100 MB", 100<<20 + 1: "100 MB", 2048 << 20: "2 GB", 5 << 40: "5120 GB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
