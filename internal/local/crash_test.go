package local_test

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// helperDir, if set, makes this test binary a program that starts all parts on that directory and
// waits to be killed.
const helperDir = "SLUICE_LOCAL_TEST_HELPER_DIR"

func helper(dir string) int {
	ctx := context.Background()
	pg, err := local.StartPostgres(ctx, local.PostgresOptions{Dir: filepath.Join(dir, "postgres")})
	if err == nil {
		_, err = local.StartNATS(ctx, local.NATSOptions{Dir: filepath.Join(dir, "nats")})
	}
	if err == nil {
		_, err = local.StartTemporal(ctx, local.TemporalOptions{Dir: filepath.Join(dir, "temporal")})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(pg.OwnerURL(local.Database))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

func TestKillingUsLeavesNothingInTheWay(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperDir+"="+dir)
		cmd.Stderr = os.Stderr
		_, err := cmd.StdinPipe() // stays open, so that the program keeps running
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		must(t, err)
		statement := "INSERT INTO kept VALUES (1)"
		if round == 0 {
			statement = "CREATE TABLE kept (n int)"
		}
		must(t, execute(t, strings.TrimSpace(line), statement))
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Fatal("the killed program ended without an error")
		}
	}

	// Start at once, while the children may still be ending.
	pg, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: filepath.Join(dir, "postgres")})
	must(t, err)
	n, err := local.StartNATS(waittest.Context(t), local.NATSOptions{Dir: filepath.Join(dir, "nats")})
	must(t, err)
	temporal, err := local.StartTemporal(waittest.Context(t), local.TemporalOptions{Dir: filepath.Join(dir, "temporal")})
	must(t, err)
	must(t, execute(t, pg.OwnerURL(local.Database), "DO $$ BEGIN IF (SELECT count(*) FROM kept) <> 2 THEN RAISE 'lost'; END IF; END $$"))
	must(t, temporal.Stop(waittest.Context(t)))
	must(t, n.Stop(waittest.Context(t)))
	must(t, pg.Stop(waittest.Context(t)))
}

func withoutToken(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	u.User = nil
	return u.String()
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// kill kills the process whose pid is in pidFile.
func kill(pidFile string) error {
	pid, err := strconv.Atoi(strings.TrimSpace(pidFile))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func libraryName() string {
	if runtime.GOOS == "darwin" {
		return "libonnxruntime.dylib"
	}
	return "libonnxruntime.so"
}

func TestServerThatDiesSaysHow(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	server, err := local.StartTemporal(waittest.Context(t), local.TemporalOptions{Dir: dir})
	must(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	must(t, err)
	must(t, kill(string(text)))
	<-server.Done()
	if err := server.Err(); !contains(err, "killed") {
		t.Errorf("Err: got %v, want that it was killed", err)
	}
}

// TestTemporalStartsAgainWhenAPortIsTaken: another process once takes a port that the server found
// free.
func TestTemporalStartsAgainWhenAPortIsTaken(t *testing.T) {
	real, err := local.FindTemporal()
	must(t, err)
	if real.Official {
		t.Fatal("the Temporal server of tools/temporal is missing: run `make setup`")
	}
	home := t.TempDir()
	t.Setenv("SLUICE_HOME", home)
	must(t, os.Mkdir(filepath.Join(home, "tools"), 0o700))
	script := fmt.Sprintf("#!/bin/sh\nif mkdir %[1]q 2>/dev/null; then\n"+
		"echo '{\"level\":\"fatal\",\"error\":\"listen tcp: bind: address already in use\",\"stacktrace\":\"%[2]s\"}'; exit 1\nfi\nexec %[3]q \"$@\"\n",
		filepath.Join(home, "failed"), strings.Repeat("go.uber.org/fx ", 1000), real.Path)
	must(t, os.WriteFile(filepath.Join(home, "tools", "temporal-server"), []byte(script), 0o700))
	server, err := local.StartTemporal(waittest.Context(t), local.TemporalOptions{Dir: localtest.Dir(t)})
	must(t, err)
	if _, err := os.Stat(filepath.Join(home, "failed")); err != nil {
		t.Errorf("the server never failed: %v", err)
	}
	must(t, server.Stop(waittest.Context(t)))
}
