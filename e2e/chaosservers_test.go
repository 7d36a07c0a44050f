//go:build chaos

package e2e

// This file runs the servers of the clusters as processes: three NATS servers with JetStream, and
// two Temporal servers on one Postgres.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// natsVariable makes this test binary run as a NATS server. It has the path of the server's
// configuration.
const natsVariable = "SLUICE_CHAOS_NATS"

func init() {
	file := os.Getenv(natsVariable)
	if file == "" {
		return
	}
	if err := runNATS(file); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runNATS(file string) error {
	options, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}

// natsMembers is the number of servers in the NATS cluster.
const natsMembers = 3

// startNATS starts the NATS cluster and creates the streams.
func (b *chaosBed) startNATS(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var routes []int
	var all []string
	for i := range natsMembers {
		b.natsPorts, routes = append(b.natsPorts, localtest.FreePort(t)), append(routes, localtest.FreePort(t))
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", routes[i]))
	}
	for i := range natsMembers {
		name := fmt.Sprint("nats-", i+1)
		// Servers do not announce each other to programs, so a program uses only the addresses of
		// its links.
		put(t, b.data, name+".conf", fmt.Sprintf(`
server_name: %s
listen: 127.0.0.1:%d
ping_interval: "10s"
ping_max: 2
jetstream { store_dir: %q, max_memory_store: 64MB, max_file_store: 4GB }
cluster { name: sluice, listen: 127.0.0.1:%d, routes: [%s], no_advertise: true, ping_interval: "5s", ping_max: 2 }
`, name, b.natsPorts[i], filepath.Join(b.data, name), routes[i], strings.Join(all, ", ")))
		b.run(t, programs{dir: filepath.Dir(self), repository: b.repository}, name,
			[]string{natsVariable + "=" + filepath.Join(b.data, name+".conf")}, filepath.Base(self))
	}
	nc, err := nats.Connect(b.natsURL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b.nc = nc
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		if _, err := js.AccountInfo(t.Context()); err != nil {
			return fmt.Sprintf("the cluster of NATS has no leader: %v", err)
		}
		return ""
	})
	// The streams are created here, because programs that start with a new cluster would wait long
	// for them.
	waittest.Until(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) //house:clock of one attempt
		defer cancel()
		if err := bus.EnsureStreams(ctx, js, bus.StreamLimits{Replicas: natsMembers}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// natsURL has the addresses of all NATS servers, without links.
func (b *chaosBed) natsURL() string {
	var all []string
	for _, port := range b.natsPorts {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	return strings.Join(all, ",")
}

// temporalMembers are the addresses of the Temporal servers. All use the same ports.
var temporalMembers = []string{"127.0.0.1", "127.0.0.2"}

const (
	historyShards = 8
	temporalPorts = 8
)

// buildTemporal builds tools/temporal.
func (b *chaosBed) buildTemporal(t *testing.T) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", b.path("temporal-server"), ".")
	build.Dir, build.Env = filepath.Join(b.repository, "tools", "temporal"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building tools/temporal: %v\n%s", err, out)
	}
}

// startTemporal starts the Temporal servers.
func (b *chaosBed) startTemporal(t *testing.T) {
	t.Helper()
	port := freeBlock(t)
	store, err := url.Parse(b.postgres.AdminURL("temporal"))
	if err != nil {
		t.Fatal(err)
	}
	for i, ip := range temporalMembers {
		b.run(t, b.programs, fmt.Sprint("temporal-", i+1), nil, "temporal-server", "--postgres", store.String(), "--ip", ip, "--port", fmt.Sprint(port),
			"--namespace", local.Namespace, "--history-shards", fmt.Sprint(historyShards), "--log-level", "warn")
		b.temporal = append(b.temporal, net.JoinHostPort(ip, fmt.Sprint(port)))
	}
	for _, address := range b.temporal {
		waittest.Until(t, func() string {
			if err := namespaceThere(t.Context(), address); err != nil {
				return fmt.Sprintf("Temporal at %s: %v", address, err)
			}
			return ""
		})
	}
}

// freeBlock returns the first of temporalPorts consecutive ports that are free at all addresses of
// the servers.
func freeBlock(t *testing.T) int {
	t.Helper()
	for port := 21000 + os.Getpid()%9000; port < 32000; port += temporalPorts {
		free := true
		for _, ip := range temporalMembers {
			for i := range temporalPorts {
				l, err := net.Listen("tcp", net.JoinHostPort(ip, fmt.Sprint(port+i)))
				if err != nil {
					free = false
					continue
				}
				_ = l.Close()
			}
		}
		if free {
			return port
		}
	}
	t.Fatalf("no %d ports in a row are free at %v (where 127.0.0.2 is no address of the machine, add it)", temporalPorts, temporalMembers)
	return 0
}

func namespaceThere(ctx context.Context, address string) (err error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) //house:clock of one attempt
	defer cancel()
	_, err = workflowservice.NewWorkflowServiceClient(conn).DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: local.Namespace})
	return err
}
