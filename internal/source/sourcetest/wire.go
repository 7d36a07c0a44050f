package sourcetest

import (
	"net"
	"sync"
	"testing"
)

// Wire is a proxy in front of any TCP server. It injects the connection faults of a Fault: Hold
// delays what the server sends, Break and Truncate end connections after that many bytes of it, and
// any Status makes the server unreachable.
type Wire struct {
	listener net.Listener
	server   string
	held     chan struct{}
	all      sync.WaitGroup

	mu      sync.Mutex
	fault   *Fault
	passed  int           // bytes from the server since the fault was set
	changed chan struct{} // closed when another fault is set
	open    map[net.Conn]bool
	ending  bool
}

// NewWire starts a proxy in front of the server at an address. It ends with the test.
func NewWire(t testing.TB, server string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: listener, server: server, held: make(chan struct{}, 1), changed: make(chan struct{}), open: map[net.Conn]bool{}}
	w.all.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.mu.Lock()
		w.ending = true
		w.cut()
		w.mu.Unlock()
		w.all.Wait()
	})
	return w
}

// Address returns the proxy's address.
func (w *Wire) Address() (host, port string) {
	host, port, _ = net.SplitHostPort(w.listener.Addr().String())
	return host, port
}

// Set makes the proxy inject a fault from now on; nil: none.
func (w *Wire) Set(fault *Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.passed = fault, 0
	close(w.changed)
	w.changed = make(chan struct{})
	if w.failing() {
		w.cut()
	}
	select {
	case <-w.held:
	default:
	}
}

// Blocked returns a channel that receives when something is held back.
func (w *Wire) Blocked() <-chan struct{} { return w.held }

// failing reports whether the server has to be unreachable. The caller holds mu.
func (w *Wire) failing() bool { return w.fault != nil && w.fault.Status != 0 }

// cut closes all connections. The caller holds mu.
func (w *Wire) cut() {
	for c := range w.open {
		_ = c.Close()
	}
}

// keep registers a connection, unless it has to be closed at once.
func (w *Wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.failing() {
		_ = c.Close()
		return false
	}
	w.open[c] = true
	return true
}

func (w *Wire) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
	_ = c.Close()
}

func (w *Wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.all.Go(func() { w.serve(near) })
	}
}

func (w *Wire) serve(near net.Conn) {
	if !w.keep(near) {
		return
	}
	defer w.drop(near)
	far, err := net.Dial("tcp", w.server)
	if err != nil || !w.keep(far) {
		return
	}
	defer w.drop(far)
	gone := make(chan struct{})
	w.all.Go(func() {
		defer close(gone)
		defer far.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := near.Read(buffer)
			if _, failed := far.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	})
	w.answers(near, far, gone)
}

// answers forwards what the server sends, until one of the two connections or a fault ends it.
func (w *Wire) answers(near, far net.Conn, gone <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := far.Read(buffer)
		passing := w.pass(n, gone)
		if _, failed := near.Write(buffer[:passing]); failed != nil || err != nil || passing < n {
			return
		}
	}
}

// pass waits until n bytes from the server may be forwarded, and returns how many of them may be.
// If that is fewer than n, the connection ends after them.
func (w *Wire) pass(n int, gone <-chan struct{}) int {
	for {
		w.mu.Lock()
		fault, changed := w.fault, w.changed
		if fault == nil || !fault.Hold {
			defer w.mu.Unlock()
			if fault == nil || fault.Break+fault.Truncate == 0 {
				return n
			}
			left := max(fault.Break+fault.Truncate-w.passed, 0)
			w.passed += n
			return min(n, left)
		}
		w.mu.Unlock()
		select {
		case w.held <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-gone:
			return 0
		}
	}
}
