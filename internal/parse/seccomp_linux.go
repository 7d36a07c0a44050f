package parse

// Which system calls a child may make. Everything else is refused, not fatal: a library that asks
// for more goes without.

import (
	"fmt"
	"os"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// callsAllowed are what Go's runtime, its files and pipes, and compiled code need. Those of other
// machines are left out.
var callsAllowed = []string{
	// Files that are open, or are opened to be read (see callsRefused).
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
	// What the machine and the process are.
	"uname", "sysinfo", "getrusage", "getrlimit", "prlimit64", "getuid", "geteuid", "getgid", "getegid", "getrandom",
}

// callsOfPrograms are what the C library needs beside these to start a program. Which programs may
// be started is Landlock's to say; whatever starts is confined as this is.
var callsOfPrograms = []string{"execve", "access", "stat", "lstat", "readlink", "getcwd", "open"}

// callsOfWriters are for a program that has a folder of its own: Landlock says where it may write.
// It has one socket of the file system, which it listens at and nobody connects to.
var callsOfWriters = []string{
	"mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "ftruncate", "pwrite64", "pwritev", "fsync", "fdatasync",
	"statfs", "fstatfs", "dup2", "chmod", "fchmod", "umask", "socket", "bind", "listen", "accept", "accept4", "shutdown", "getsockname",
}

// refusedCall is a call that is refused with some arguments.
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
		// A thread, never a process.
		{"clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsNotSet, Value: unix.CLONE_THREAD}, seccomp.ActionErrno},
		// Its flags are out of a filter's sight; without it the C library takes clone.
		{"clone3", seccomp.Condition{Argument: 1, Operation: seccomp.GreaterOrEqual, Value: 0}, seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
		{"kill", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: own}, seccomp.ActionErrno},
		{"tgkill", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: own}, seccomp.ActionErrno},
		// Limits of its own, not those of its parent, who may be the same user.
		{"prlimit64", seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: 0}, seccomp.ActionErrno},
		{"fcntl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.F_SETOWN}, seccomp.ActionErrno},
		{"fcntl", seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: unix.F_SETOWN_EX}, seccomp.ActionErrno},
	}
}

// filterCalls refuses all other system calls to every thread of this process, for good. Each
// condition is a filter of its own, of which the kernel takes the strictest word: in one filter the
// library would compare what follows a condition that isn't met with the argument in place of the
// call.
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
	// Last: it refuses more filters.
	policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{{Action: seccomp.ActionAllow, Names: allowed}}})
	for _, p := range policies {
		if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: p}); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}
