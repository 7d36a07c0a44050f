package memory

import "os"

// maxHeadroom limits what KeepHeadroom adds to a heap.
const maxHeadroom = 128 << 20

// headroom is never written, so that the system gives it no memory.
var headroom []byte

// KeepHeadroom has the heap grow by more than its own size between garbage collections: by a
// thirty-second of Limit more, at most 128 MiB. Otherwise a program whose live heap is small
// collects many times a second under load. It does nothing if GOGC or GOMEMLIMIT is set.
//
// Call it once, when the program starts.
func KeepHeadroom() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	keep(Share(32, 0, maxHeadroom))
}

// keep allocates what the collector counts as live: the next collection is at twice the live heap.
func keep(bytes int64) { headroom = make([]byte, bytes) }
