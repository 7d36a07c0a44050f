package memory

import (
	"os"
	"sync"
)

// maxHeadroom limits what KeepHeadroom adds to a heap.
const maxHeadroom = 128 << 20

// KeepHeadroom has the heap grow by more than its own size between garbage collections: by a
// thirty-second of Limit more, at most 128 MiB. Otherwise a program whose live heap is small
// collects many times a second under load. It does nothing if GOGC or GOMEMLIMIT is set.
func KeepHeadroom() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		headroom()
	}
}

// headroom returns what the collector counts as live: the next collection is at twice the live
// heap. It is never written, so the system gives it no memory.
var headroom = sync.OnceValue(func() []byte { return make([]byte, Share(32, 0, maxHeadroom)) })
