//go:build !linux

package tcp

import "syscall"

// control does nothing: other systems have no such option, and keep-alive probes alone find a dead
// connection.
func control(string, string, syscall.RawConn) error { return nil }
