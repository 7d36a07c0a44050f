package main

// This file parses the output of strace: the addresses that a process connected to, the files that
// it changed, and the programs that it started. Failed attempts count, too.

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// traced lists the system calls that strace traces. io_uring_setup is one of them because calls
// made through a ring are invisible to strace.
var traced = []string{
	"connect", "sendto", "sendmsg", "sendmmsg", "io_uring_setup", "execve", "execveat",
	"open", "openat", "openat2", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "rmdir", "unlink", "unlinkat", "truncate",
	"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "chmod", "fchmodat", "chown", "lchown", "fchownat",
	"setxattr", "lsetxattr", "utimensat",
}

// traceReport records what a process did.
type traceReport struct {
	connections []string // address:port, unix:path or the whole call
	writes      []string // absolute paths
	programs    []string // whole calls, including the one that started the process's own program
}

var (
	callPattern = regexp.MustCompile(`^\d+ +([a-z_0-9]+)\((.*)$`)
	inet        = regexp.MustCompile(`sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]*)"\)`)
	inet6       = regexp.MustCompile(`sin6_port=htons\((\d+)\).*inet_pton\(AF_INET6, "([^"]*)"`)
	unix        = regexp.MustCompile(`sa_family=AF_UNIX, sun_path=@?"([^"]*)"`)
	path        = regexp.MustCompile(`(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"`)
	forWriting  = regexp.MustCompile(`\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b`)
)

// readTrace reads the file that strace -f -y wrote for a process whose working directory is dir.
func readTrace(file, dir string) (traceReport, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return traceReport{}, err
	}
	var d traceReport
	for line := range strings.Lines(string(text)) {
		if m := callPattern.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			d.add(m[1], m[2], dir)
		}
	}
	return d, nil
}

func (d *traceReport) add(call, args, dir string) {
	switch call {
	case "connect", "sendto", "sendmsg", "sendmmsg", "io_uring_setup":
		if to := destination(call, args); to != "" {
			d.connections = append(d.connections, to)
		}
	case "execve", "execveat":
		d.programs = append(d.programs, call+"("+args)
	case "open", "openat", "openat2":
		if forWriting.MatchString(args) {
			d.addWrites(args, dir)
		}
	default:
		d.addWrites(args, dir)
	}
}

func (d *traceReport) addWrites(args, dir string) {
	for _, m := range path.FindAllStringSubmatch(args, -1) {
		name := m[2]
		if !filepath.IsAbs(name) {
			if m[1] != "" {
				dir = m[1]
			}
			name = filepath.Join(dir, name)
		}
		d.writes = append(d.writes, name)
	}
}

// destination returns the address that a call connects or sends to. It is empty if the call names
// none, because the socket is connected already, or if it is the kernel (netlink).
func destination(call, args string) string {
	if m := inet.FindStringSubmatch(args); m != nil {
		return net.JoinHostPort(m[2], m[1])
	}
	if m := inet6.FindStringSubmatch(args); m != nil {
		return net.JoinHostPort(m[2], m[1])
	}
	if m := unix.FindStringSubmatch(args); m != nil {
		return "unix:" + m[1]
	}
	if call != "connect" && call != "io_uring_setup" && !strings.Contains(args, "sa_family=") {
		return ""
	}
	if strings.Contains(args, "sa_family=AF_NETLINK") || strings.Contains(args, "sa_family=AF_UNSPEC") {
		return ""
	}
	return call + "(" + args
}

// violations returns what the process did other than connecting to the addresses and writing below
// the folders.
func (d traceReport) violations(addresses, folders []string) (all []string) {
	for _, to := range d.connections {
		if !slices.Contains(addresses, to) {
			all = append(all, "it connected to "+to)
		}
	}
	for _, name := range d.writes {
		inside := name == os.DevNull || slices.ContainsFunc(folders, func(dir string) bool {
			rel, err := filepath.Rel(dir, name)
			return err == nil && filepath.IsLocal(rel)
		})
		if !inside {
			all = append(all, "it changed "+name)
		}
	}
	if len(d.programs) != 1 {
		all = append(all, fmt.Sprintf("it started programs: %q", d.programs))
	}
	return all
}
