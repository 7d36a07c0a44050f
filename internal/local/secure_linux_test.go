package local_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
)

// TestEveryPortOfTemporalAsksForACertificate tests the frontend's port, and those of the other
// parts, which have access to the same workflows.
func TestEveryPortOfTemporalAsksForACertificate(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	server, err := local.StartTemporal(t.Context(), local.TemporalOptions{Dir: dir, Secure: true})
	must(t, err)
	defer func() { must(t, server.Stop(context.WithoutCancel(t.Context()))) }()
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	must(t, err)
	ports := listening(t, strings.TrimSpace(string(pid)))
	if len(ports) < 4 {
		t.Fatalf("it listens on %v; its frontend alone is not all of it", ports)
	}
	for _, port := range ports {
		if code := callUnknown(t, port); code != codes.Unavailable {
			t.Errorf("port %d answers who has no certificate: %s", port, code)
		}
	}
	for _, name := range []string{"key.pem", "cert.pem", "ca.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %o, want 600", name, info.Mode().Perm())
		}
	}
	before := *server.TLS()
	must(t, server.Stop(t.Context()))
	must(t, server.Start(t.Context()))
	if *server.TLS() != before {
		t.Error("clients would need another certificate after a restart")
	}
}

// TestATemporalServerOfAnOlderVersionIsTold checks that the error says what to do.
func TestATemporalServerOfAnOlderVersionIsTold(t *testing.T) {
	home := localtest.Dir(t)
	t.Setenv("SLUICE_HOME", home)
	must(t, os.MkdirAll(filepath.Join(home, "tools"), 0o755))
	old := "#!/bin/sh\necho 'flag provided but not defined: -tls-ca' >&2\nexit 1\n"
	must(t, os.WriteFile(filepath.Join(home, "tools", "temporal-server"), []byte(old), 0o755))
	_, err := local.StartTemporal(t.Context(), local.TemporalOptions{Dir: localtest.Dir(t), Secure: true})
	if !contains(err, "make setup") {
		t.Errorf("got %v, want an error that says what to run", err)
	}
}

// callUnknown makes a call without a certificate. It returns the code of the server's reply, or of
// the closed connection.
func callUnknown(t *testing.T, port int) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(net.JoinHostPort(local.Host, strconv.Itoa(port)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	_, err = workflowservice.NewWorkflowServiceClient(conn).ListNamespaces(t.Context(), &workflowservice.ListNamespacesRequest{})
	return status.Code(err)
}

// listening returns the TCP ports that a process listens on.
func listening(t *testing.T, pid string) (ports []int) {
	t.Helper()
	own := make(map[string]bool)
	fds, err := filepath.Glob(filepath.Join("/proc", pid, "fd", "*"))
	must(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			own[strings.Trim(target, "socket:[]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" || !own[fields[9]] {
				continue
			}
			var port int
			_, hex, _ := strings.Cut(fields[1], ":")
			if _, err := fmt.Sscanf(hex, "%X", &port); err != nil {
				t.Fatal(err)
			}
			ports = append(ports, port)
		}
	}
	return ports
}
