package parse

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestParsersHaveLowPriority checks that the processes of the spawner have a lower priority than
// this process.
func TestParsersHaveLowPriority(t *testing.T) {
	priority := func(pid int) int {
		t.Helper()
		// The system call returns 20 minus the nice value.
		p, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - p
	}
	s := newSpawner()
	cmd := exec.Command("sleep", "60")
	if err := s.start(cmd); err != nil {
		t.Fatal(err)
	}
	got, own := priority(cmd.Process.Pid), priority(0)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.stop()
	if got != max(own, lowered) {
		t.Errorf("a parser has priority %d, this process %d", got, own)
	}
}
