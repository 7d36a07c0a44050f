package e2e

import "syscall"

// dieWithTests makes the kernel interrupt the process when the tests are killed, so that it ends
// cleanly.
func dieWithTests(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
