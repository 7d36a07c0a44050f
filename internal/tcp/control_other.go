//go:build !linux

package tcp

import "syscall"

// control does nothing: other systems have no such option, and only keep-alive probes detect a dead
// connection.
func control(string, string, syscall.RawConn) error { return nil }
