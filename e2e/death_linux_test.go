package e2e

import "syscall"

// dieWithTests has the kernel end the process cleanly when the tests are killed.
func dieWithTests(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
