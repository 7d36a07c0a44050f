//go:build !linux

package local

import "syscall"

// dieWithParent does nothing on this system. A child that outlives us is found by its pid and ended
// at the next start.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
