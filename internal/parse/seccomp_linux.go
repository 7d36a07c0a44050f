package parse

// Which system calls a child may make. All others fail with an error but are not fatal, so that a
// library that makes them continues without.

import (
	"fmt"
	"os"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// callsAllowed are the calls that Go's runtime, its files and pipes, and compiled code need. Names
// that do not exist on this machine's architecture are ignored.
var callsAllowed = []string{
	// Open files, and opening files for reading (see callsRefused).
	"read", "readv", "pread64", "preadv", "write", "writev", "lseek", "close", "dup", "dup3", "fcntl", "fadvise64",
	"openat", "fstat", "newfstatat", "statx", "getdents64", "readlinkat", "faccessat", "faccessat2", "pipe2", "poll", "ppoll", "select", "pselect6",
	"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2",
	// Memory.
	"brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "mincore", "membarrier",
	// Threads, and signals to itself.
	"clone", "clone3", "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "arch_prctl", "gettid", "getpid", "getppid",
	"sched_yield", "sched_getaffinity", "getcpu", "exit", "exit_group", "tgkill", "kill",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "sigaltstack", "restart_syscall",
	// Time.
	"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "timer_create", "timer_settime", "timer_delete", "setitimer",
	// Information about the machine and the process.
	"uname", "sysinfo", "getrusage", "getrlimit", "prlimit64", "getuid", "geteuid", "getgid", "getegid", "getrandom",
}

// callsOfPrograms are the further calls that the C library needs to start a program. Landlock
// restricts which programs may be started; they inherit this confinement.
var callsOfPrograms = []string{"execve", "access", "stat", "lstat", "readlink", "getcwd", "open"}

// callsOfWriters are the further calls of a program that may write to a folder, which Landlock
// restricts. The program has one Unix socket on which it listens and to which nothing connects.
var callsOfWriters = []string{
	"mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "ftruncate", "pwrite64", "pwritev", "fsync", "fdatasync",
	"statfs", "fstatfs", "dup2", "chmod", "fchmod", "umask", "socket", "bind", "listen", "accept", "accept4", "shutdown", "getsockname",
}

// refusedCall is a call that is refused if the condition holds.
type refusedCall struct {
	call string
	when seccomp.Condition
	with seccomp.Action
}

const writing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND | (unix.O_TMPFILE &^ unix.O_DIRECTORY)

func callsRefused() []refusedCall {
	own := uint64(os.Getpid())
	return []refusedCall{
		{"open", seccomp.Condition{Argument: 1, Operation: seccomp.BitsSet, Value: writing}, seccomp.ActionErrno},
		{"openat", seccomp.Condition{Argument: 2, Operation: seccomp.BitsSet, Value: writing}, seccomp.ActionErrno},
		{"socket", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_UNIX}, seccomp.ActionErrno},
		// Threads only, no processes.
		{"clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsNotSet, Value: unix.CLONE_THREAD}, seccomp.ActionErrno},
		// A filter cannot read its flags; without it the C library uses clone.
		{"clone3", seccomp.Condition{Argument: 1, Operation: seccomp.GreaterOrEqual, Value: 0}, seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		{"kill", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: own}, seccomp.ActionErrno},
		{"tgkill", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: own}, seccomp.ActionErrno},
		// Only its own limits, not those of its parent, which may have the same user.
		{"prlimit64", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: 0}, seccomp.ActionErrno},
		{"fcntl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.F_SETOWN}, seccomp.ActionErrno},
		{"fcntl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.F_SETOWN_EX}, seccomp.ActionErrno},
	}
}

// filterCalls permanently refuses all other system calls to every thread of this process. Each
// condition is a filter of its own; the kernel applies the strictest result of all filters. In a
// single filter, after a condition that is not met, the library would compare the argument instead
// of the call's number.
func filterCalls(writes bool, more ...string) error {
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	var policies []seccomp.Policy
	for _, r := range callsRefused() {
		if _, ok := info.SyscallNames[r.call]; !ok || writes && (r.call == "open" || r.call == "openat") {
			continue
		}
		policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{
			Action:             r.with,
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: r.call, Conditions: seccomp.ArgumentConditions{r.when}}},
		}}})
	}
	var allowed []string
	for _, call := range slices.Concat(callsAllowed, more) {
		if _, ok := info.SyscallNames[call]; ok {
			allowed = append(allowed, call)
		}
	}
	// Last, because it refuses to install further filters.
	policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{{Action: seccomp.ActionAllow, Names: allowed}}})
	for _, p := range policies {
		if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: p}); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}
