package memory

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestHeadroomDelaysCollectionsAndTakesNoMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := resident(t)
	KeepHeadroom()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	size := uint64(len(headroom()))
	if size == 0 || m.NextGC < 2*size {
		t.Errorf("the next collection is at %d bytes, want at least twice %d", m.NextGC, size)
	}
	if grown := resident(t) - before; grown > int64(size/4) {
		t.Errorf("the process grew by %d bytes", grown)
	}
}

// resident returns the bytes of this process that are in memory.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("this system does not say what a process uses: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
