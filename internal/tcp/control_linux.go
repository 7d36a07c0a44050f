package tcp

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control sets TCP_USER_TIMEOUT, tcp(7), on a new socket.
func control(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(Silence.Milliseconds()))
	}); failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
