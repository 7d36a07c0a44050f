package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// child returns the process id of the server's child process that runs a program.
func (s *server) child(t *testing.T, program string) int {
	t.Helper()
	return s.childProcess(t, program).id
}

func (s *server) childProcess(t *testing.T, program string) running {
	t.Helper()
	for _, p := range processes(t) {
		if p.parent == s.cmd.Process.Pid && strings.HasSuffix(p.program, program) {
			return p
		}
	}
	t.Fatalf("no child of process %d runs %s", s.cmd.Process.Pid, program)
	return running{}
}

// running is a process of this machine.
type running struct {
	id, parent int
	program    string
	args       []string
}

// processes returns the running processes, from /proc or, without it, from ps.
func processes(t *testing.T) []running {
	t.Helper()
	var out []running
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // the process has ended
		}
		var p running
		var state string
		// The name in parentheses may contain anything, even parentheses.
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), " ")
		if _, err := fmt.Sscan(rest, &state, &p.parent); err != nil {
			t.Fatalf("%s: %v", stat, err)
		}
		p.id, err = strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			t.Fatal(err)
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if err != nil {
			continue
		}
		args := strings.Split(string(line), "\x00")
		p.program, p.args = args[0], args[1:]
		out = append(out, p)
	}
	if len(stats) > 0 {
		return out
	}
	lines, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	for line := range strings.Lines(string(lines)) {
		var p running
		if _, err := fmt.Sscan(line, &p.id, &p.parent, &p.program); err != nil {
			t.Fatalf("ps printed %q: %v", line, err)
		}
		p.args = strings.Fields(line)[3:]
		out = append(out, p)
	}
	return out
}
