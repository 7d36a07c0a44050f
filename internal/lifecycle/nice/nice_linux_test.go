package nice

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// started starts a process that waits until the test is over.
func started(t *testing.T, as *syscall.SysProcAttr) (pid int) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = as
	held, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = held.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// niceness returns the result of the kernel's getpriority: 20 minus the niceness.
func niceness(t *testing.T, pid int) int {
	t.Helper()
	n, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - n
}

func TestGroup(t *testing.T) {
	pid := started(t, &syscall.SysProcAttr{Setpgid: true})
	if err := Group(pid); err != nil {
		t.Fatal(err)
	}
	if n := niceness(t, pid); n != background {
		t.Errorf("its niceness is %d", n)
	}
	if n := niceness(t, os.Getpid()); n == background {
		t.Error("this process was lowered, too")
	}
}

func TestSession(t *testing.T) {
	pid := started(t, &syscall.SysProcAttr{Setsid: true})
	if err := Session(pid); err != nil {
		t.Fatal(err)
	}
	if n := niceness(t, pid); n != background {
		t.Errorf("its niceness is %d", n)
	}
	session, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/autogroup")
	if err == nil && !strings.HasSuffix(strings.TrimSpace(string(session)), " nice "+strconv.Itoa(background)) {
		t.Errorf("its session is %q", session)
	}
}

func TestAProcessThatIsGone(t *testing.T) {
	const none = 1 << 22 // above the largest possible id
	if Group(none) == nil || Session(none) == nil {
		t.Error("no error")
	}
}
