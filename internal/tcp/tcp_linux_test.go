package tcp_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/tcp"
)

// TestADeadConnectionEndsWithinHalfAMinute checks the socket options.
func TestADeadConnectionEndsWithinHalfAMinute(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := tcp.Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := map[int]int{unix.TCP_USER_TIMEOUT: 0, unix.TCP_KEEPIDLE: 0, unix.TCP_KEEPINTVL: 0}
	if err := raw.Control(func(fd uintptr) {
		for name := range option {
			if option[name], err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if ms := option[unix.TCP_USER_TIMEOUT]; ms <= 0 || time.Duration(ms)*time.Millisecond >= 30*time.Second {
		t.Errorf("unacknowledged data is waited for %d ms", ms)
	}
	// The first probe after the timeout ends the connection.
	if s := option[unix.TCP_KEEPIDLE]; s <= 0 || s >= 30 {
		t.Errorf("a silent connection is probed after %d s", s)
	}
	if s := option[unix.TCP_KEEPINTVL]; s <= 0 || s > 5 {
		t.Errorf("it is probed again after %d s", s)
	}
}
