package sourcetest

import (
	"net"
	"sync"
	"testing"
)

// TCPProxy is a proxy in front of any TCP server. It injects the connection faults of a Fault:
// Block delays what the server sends, Break and Truncate end connections after that many bytes of
// it, and any Status makes the server unreachable.
type TCPProxy struct {
	listener net.Listener
	address  string
	blocked  chan struct{}
	wg       sync.WaitGroup

	mu        sync.Mutex
	fault     *Fault
	forwarded int           // bytes from the server since the fault was set
	changed   chan struct{} // closed when another fault is set
	open      map[net.Conn]bool
	ending    bool
}

// NewTCPProxy starts a proxy in front of the server at an address. It ends with the test.
func NewTCPProxy(t testing.TB, address string) *TCPProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &TCPProxy{listener: listener, address: address, blocked: make(chan struct{}, 1), changed: make(chan struct{}), open: map[net.Conn]bool{}}
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.mu.Lock()
		w.ending = true
		w.closeAll()
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

// Address returns the proxy's address.
func (w *TCPProxy) Address() (host, port string) {
	host, port, _ = net.SplitHostPort(w.listener.Addr().String())
	return host, port
}

// Set makes the proxy inject a fault from now on; nil: none.
func (w *TCPProxy) Set(fault *Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.forwarded = fault, 0
	close(w.changed)
	w.changed = make(chan struct{})
	if w.failing() {
		w.closeAll()
	}
	select {
	case <-w.blocked:
	default:
	}
}

// Blocked returns a channel that receives when something is held back.
func (w *TCPProxy) Blocked() <-chan struct{} { return w.blocked }

// failing reports whether the server has to be unreachable. The caller holds mu.
func (w *TCPProxy) failing() bool { return w.fault != nil && w.fault.Status != 0 }

// closeAll closes all connections. The caller holds mu.
func (w *TCPProxy) closeAll() {
	for c := range w.open {
		_ = c.Close()
	}
}

// track registers a connection, unless it has to be closed at once.
func (w *TCPProxy) track(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.failing() {
		_ = c.Close()
		return false
	}
	w.open[c] = true
	return true
}

func (w *TCPProxy) untrack(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
	_ = c.Close()
}

func (w *TCPProxy) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.serve(client) })
	}
}

func (w *TCPProxy) serve(client net.Conn) {
	if !w.track(client) {
		return
	}
	defer w.untrack(client)
	upstream, err := net.Dial("tcp", w.address)
	if err != nil || !w.track(upstream) {
		return
	}
	defer w.untrack(upstream)
	closed := make(chan struct{})
	w.wg.Go(func() {
		defer close(closed)
		defer upstream.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := client.Read(buffer)
			if _, failed := upstream.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	})
	w.forwardReplies(client, upstream, closed)
}

// forwardReplies forwards what the server sends, until one of the two connections or a fault ends
// it.
func (w *TCPProxy) forwardReplies(client, upstream net.Conn, closed <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := upstream.Read(buffer)
		allowed := w.waitToForward(n, closed)
		if _, failed := client.Write(buffer[:allowed]); failed != nil || err != nil || allowed < n {
			return
		}
	}
}

// waitToForward waits until n bytes from the server may be forwarded, and returns how many of them
// may be. If that is fewer than n, the connection ends after them.
func (w *TCPProxy) waitToForward(n int, closed <-chan struct{}) int {
	for {
		w.mu.Lock()
		fault, changed := w.fault, w.changed
		if fault == nil || !fault.Block {
			defer w.mu.Unlock()
			if fault == nil || fault.Break+fault.Truncate == 0 {
				return n
			}
			remaining := max(fault.Break+fault.Truncate-w.forwarded, 0)
			w.forwarded += n
			return min(n, remaining)
		}
		w.mu.Unlock()
		select {
		case w.blocked <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-closed:
			return 0
		}
	}
}
