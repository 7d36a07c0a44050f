package parse

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// execProgram confines this process and replaces it by the program of its sandbox. It returns only
// on error. The program keeps a parser's priority.
func (c sandbox) execProgram(skip ...string) error {
	p := c.Program
	// Close Go's open files when the program starts; otherwise the program could use them.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	args := append([]string{p.Path}, p.Args...)
	env := []string{"OMP_THREAD_LIMIT=1", "LC_ALL=C"}
	if p.WorkDir != "" {
		env = []string{"LC_ALL=C.UTF-8", "HOME=" + p.WorkDir, "TMPDIR=" + filepath.Join(p.WorkDir, "tmp"), "SAL_USE_VCLPLUGIN=svp"}
	}
	// This thread becomes the program.
	runtime.LockOSThread()
	applied := c.confine(skip...)
	if p.WorkDir != "" && !slices.Contains(applied.Applied, protectionLandlock) {
		return fmt.Errorf("it needs Landlock (Linux 5.13) to stay in its folder: %s", applied)
	}
	report, err := json.Marshal(applied)
	if err != nil {
		return err
	}
	// The first line, for the parent.
	if _, err := fmt.Fprintf(os.Stderr, "%s\n", report); err != nil {
		return fmt.Errorf("say what confines it: %w", err)
	}
	// Last, because this Go process already uses more address space than that.
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: uint64(c.Memory), Max: uint64(c.Memory)}); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return fmt.Errorf("start %s: %w", p.Path, syscall.Exec(p.Path, args, env))
}
