package memory

import (
	"math"
	"os"
	"strings"
	"testing"
)

func TestLimit(t *testing.T) {
	limit := Limit()
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Skipf("this system does not say what memory it has: %v", err)
	}
	if !strings.HasPrefix(string(info), "MemTotal:") {
		t.Fatalf("/proc/meminfo: %.40q", info)
	}
	if limit < 1<<20 {
		t.Errorf("the limit is %d bytes", limit)
	}
	for _, c := range []struct {
		name               string
		parts, least, most int64
		want               int64
	}{
		{"a part", 4, 0, math.MaxInt64, limit / 4},
		{"the least", 4, limit, math.MaxInt64, limit},
		{"the most", 4, 0, 1 << 10, 1 << 10},
	} {
		if got := Share(c.parts, c.least, c.most); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
