package parse

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// The range of user ids for parsers where we are root: the first unused id is taken, since nothing
// else may run as that user.
const (
	firstUser = 64700
	lastUser  = 64709
)

// parserUser returns the user id for children, or 0 if they keep ours.
func parserUser() int {
	if os.Geteuid() != 0 {
		return 0
	}
	for id := firstUser; id <= lastUser; id++ {
		var unknown user.UnknownUserIdError
		if _, err := user.LookupId(strconv.Itoa(id)); errors.As(err, &unknown) {
			return id
		}
	}
	return lastUser
}

// isolateNetwork gives the child an empty network namespace. Without root, this needs a user
// namespace, too.
func isolateNetwork(cmd *exec.Cmd) {
	a := cmd.SysProcAttr
	a.Cloneflags |= unix.CLONE_NEWNET
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
}

// Limits of a child in addition to memory and time.
const (
	maxOpenFiles   = 64
	maxWriterFiles = 512  // for a program that may write to a folder
	maxProcesses   = 1024 // threads, of all parsers of the user together
)

// canConfineWriting reports whether a program can be restricted to writing in one folder.
const canConfineWriting = true

// ownedBy reports whether the user uid owns a file.
func ownedBy(info fs.FileInfo, uid int) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == uid
}

func (c sandbox) apply(applied *Confinement, skip []string) {
	// The parent-death signal is set per thread.
	runtime.LockOSThread()
	enabled := func(name string) bool { return !slices.Contains(skip, name) }
	if enabled(protectionLimits) {
		applied.record(protectionLimits, c.limit())
	}
	if enabled(protectionUser) {
		applied.record(protectionUser, c.switchUser())
	}
	if c.Program != nil {
		// Set the parent-death signal on the thread that becomes the program, which may be another
		// one.
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	}
	applied.record(protectionPrivileges, ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if enabled(protectionLandlock) {
		applied.record(protectionLandlock, c.landlock())
	}
	if enabled(protectionSeccomp) {
		var more []string
		writes := false
		if p := c.Program; p != nil {
			more = callsOfPrograms
			if writes = p.WorkDir != ""; writes {
				more = append(slices.Clip(more), callsOfWriters...)
			}
		}
		applied.record(protectionSeccomp, filterCalls(writes, more...))
	}
}

// limit sets resource limits. Memory counts on top of what this process already uses, which is much
// in an instrumented build.
func (c sandbox) limit() error {
	data, err := privateMemory()
	if err != nil {
		return err
	}
	files, written := uint64(maxOpenFiles), uint64(0)
	if p := c.Program; p != nil && p.WorkDir != "" {
		files, written = maxWriterFiles, uint64(p.FileBytes)
	}
	var all []error
	for _, l := range []struct {
		resource int
		limit    uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, written}, {unix.RLIMIT_NOFILE, files}, {unix.RLIMIT_CPU, uint64(c.CPU)},
		// More than the parent allows: the parent watches memory, and this limit is for growth that
		// is faster than it looks.
		{unix.RLIMIT_DATA, data + 2*uint64(c.Memory) + 1<<30},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			all = append(all, fmt.Errorf("limit %d to %d: %w", l.resource, l.limit, err))
		}
	}
	// Threads are counted per user, so a limit makes sense only where the user, or its namespace,
	// runs nothing but parsers.
	if c.User != 0 || c.NetworkNamespace {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}); err != nil {
			all = append(all, fmt.Errorf("limit processes: %w", err))
		}
	}
	return errors.Join(all...)
}

// privateMemory returns the size of this process's private writable memory in bytes.
func privateMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		var kilobytes uint64
		if _, err := fmt.Sscanf(string(line), "VmData: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc/self/status has no VmData")
}

// switchUser gives up root and all of its capabilities for good.
func (c sandbox) switchUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if c.User == 0 {
		return errors.New("there is no user to become")
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave all groups: %w", err)
	}
	if err := syscall.Setresgid(c.User, c.User, c.User); err != nil {
		return fmt.Errorf("become group %d: %w", c.User, err)
	}
	if err := syscall.Setresuid(c.User, c.User, c.User); err != nil {
		return fmt.Errorf("become user %d: %w", c.User, err)
	}
	// The kernel clears the parent-death signal when the user changes.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// landlock allows only reading the compiled code, or a program's own files: no other file, no
// connection, and no signal to other processes.
func (c sandbox) landlock() error {
	var rules, later []landlock.Rule
	if p := c.Program; p != nil {
		rules = append(rules,
			landlock.PathAccess(ll.AccessFSExecute|ll.AccessFSReadFile, append([]string{p.Path}, p.Loader...)...),
			landlock.PathAccess(ll.AccessFSReadFile, p.Libraries...).IgnoreIfMissing(),
			landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, p.folders()...).IgnoreIfMissing())
		if p.WorkDir != "" {
			const write = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
				ll.AccessFSMakeDir | ll.AccessFSMakeReg
			rules = append(rules, landlock.PathAccess(write, p.WorkDir), landlock.PathAccess(ll.AccessFSMakeSock, officeSockets),
				landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSWriteFile, "/dev/null"), landlock.PathAccess(ll.AccessFSReadFile, "/dev/urandom"))
			later = append(later, landlock.PathAccess(ll.AccessFSTruncate|ll.AccessFSRefer, p.WorkDir))
		}
	}
	if c.CacheDir != "" {
		rules = append(rules, landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, c.CacheDir).IgnoreIfMissing())
	}
	// First the rules of the oldest Landlock version, which every kernel with Landlock has. The
	// second call applies as much as this kernel supports, which may be nothing more.
	if err := landlock.V1.RestrictPaths(rules...); err != nil {
		return err
	}
	return landlock.V9.BestEffort().Restrict(append(rules, later...)...)
}

// folders returns the folders that a program reads besides its libraries.
func (p *sandboxProgram) folders() []string {
	if p.Tessdata == "" {
		return p.Folders
	}
	return append([]string{p.Tessdata}, p.Folders...)
}

// enterableByAll reports whether every user may enter the parent folders of dir.
func enterableByAll(dir string) bool {
	dir, err := filepath.Abs(dir)
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		var info fs.FileInfo
		if info, err = os.Stat(filepath.Dir(dir)); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
	}
	return err == nil
}

// rootCache returns the folder for root's compiled code, or "" if it cannot be used.
func rootCache() string {
	const dir = "/var/cache/sluice/parsers"
	if os.MkdirAll(dir, 0o755) != nil || !enterableByAll(dir) {
		return ""
	}
	return dir
}

// makeReadableForAll makes compiled code readable for the user of parsers.
func makeReadableForAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}
