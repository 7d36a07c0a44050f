package localtest

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
)

var given struct {
	sync.Mutex
	ports map[int]bool
}

// FreePort returns a free port of local.Host that no other call in this process returned. It is
// still free when a server starts late, or starts again.
func FreePort(t testing.TB) int {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for {
		port, err := local.FreePort()
		if err != nil {
			t.Fatalf("localtest: %v", err)
		}
		if !given.ports[port] {
			given.ports[port] = true
			return port
		}
	}
}

// FreeAddress returns an address with a FreePort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(local.Host, strconv.Itoa(FreePort(t)))
}
