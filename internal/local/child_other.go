//go:build !linux

package local

import "syscall"

// dieWithParent does nothing here: a child that outlives us is found by its pid and ended at the
// next start.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
