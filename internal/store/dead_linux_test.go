package store

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/tcp"
)

// TestDeadConnectionsAreNoticed reads the kernel's settings for a connection of the pool.
func TestDeadConnectionsAreNoticed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, err := poolConfig("postgres://somebody@"+l.Addr().String()+"/sluice", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	if failed := raw.Control(func(fd uintptr) { limit, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if int64(limit) != tcp.Silence.Milliseconds() {
		t.Errorf("TCP_USER_TIMEOUT is %d ms", limit)
	}
}
