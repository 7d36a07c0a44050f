package sourcetest

import (
	"net"
	"sync"
	"testing"
)

// Wire is a proxy before any server that is reached by TCP. It does wrong what a Fault says of
// connections: Hold holds back what the server says, Break and Truncate end connections after as
// many bytes of it, and with any Status the server is away.
type Wire struct {
	listener net.Listener
	server   string
	held     chan struct{}
	all      sync.WaitGroup

	mu      sync.Mutex
	fault   *Fault
	passed  int           // bytes of the server since the fault was set
	changed chan struct{} // closed when the fault is another
	open    map[net.Conn]bool
	ending  bool
}

// NewWire starts a proxy before the server at an address. It ends with the test.
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

// Address is the proxy's.
func (w *Wire) Address() (host, port string) {
	host, port, _ = net.SplitHostPort(w.listener.Addr().String())
	return host, port
}

// Set has the proxy do wrong what a fault says from now on; nothing where it is nil.
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

// Blocked receives when something is held back.
func (w *Wire) Blocked() <-chan struct{} { return w.held }

// failing reports whether the server is to be away. The caller holds mu.
func (w *Wire) failing() bool { return w.fault != nil && w.fault.Status != 0 }

// cut ends all connections. The caller holds mu.
func (w *Wire) cut() {
	for c := range w.open {
		_ = c.Close()
	}
}

// keep notes a connection, unless it must end at once.
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

// answers hands on what the server says, until one of both ends, or a fault ends them.
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

// pass waits until n bytes may pass, and returns how many may. Where those are fewer, the
// connection ends behind them.
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
