//go:build unix && !linux

package nice

import "syscall"

func group(id int) error { return syscall.Setpriority(syscall.PRIO_PGRP, id, background) }

func session(pid int) error { return syscall.Setpriority(syscall.PRIO_PROCESS, pid, background) }
