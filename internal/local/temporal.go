// This file runs the Temporal server as a service: one child process that stores everything in one
// SQLite file.

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/nice"
)

// temporalHealth is the frontend's name in the health service.
const temporalHealth = "temporal.api.workflowservice.v1.WorkflowService"

// Namespace is the namespace that a local server has from the start.
const Namespace = "default"

// TemporalOptions are the options of a Temporal server.
type TemporalOptions struct {
	// Dir holds the state and the log; it is created if missing. It may be wiped while the server
	// is stopped.
	Dir string
	// Port to listen on; 0: a free one, which stays the same for the lifetime of the Temporal
	// value.
	Port int
	// Secure makes every port of the server require a client certificate that only this process
	// has, so that other users of this machine cannot read or end workflows. A server found on PATH
	// does not support this; a warning is logged.
	Secure bool
	// Background lowers the server's priority if the system permits: nobody waits for it by the
	// second.
	Background bool
	// Log gets notable events; nil discards them.
	Log *slog.Logger
}

// Temporal is a local Temporal server.
type Temporal struct {
	*lifecycle.Func

	opts TemporalOptions

	mu    sync.Mutex
	port  int
	child *child
	tls   *Certificate // nil without Secure, or if the server does not support it
}

// NewTemporal checks the options; Start starts the server.
func NewTemporal(opts TemporalOptions) (*Temporal, error) {
	if err := checkOptions("temporal", &opts.Dir, opts.Port, &opts.Log); err != nil {
		return nil, err
	}
	t := &Temporal{opts: opts, port: opts.Port}
	t.Func = lifecycle.NewFunc("temporal", t.start)
	return t, nil
}

// StartTemporal makes and starts a server.
func StartTemporal(ctx context.Context, opts TemporalOptions) (*Temporal, error) {
	t, err := NewTemporal(opts)
	if err != nil {
		return nil, err
	}
	return t, t.Start(ctx)
}

// Address returns the frontend's host:port. It is valid after Start and stays the same across
// restarts.
func (t *Temporal) Address() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return net.JoinHostPort(Host, strconv.Itoa(t.port))
}

// TLS returns the certificate for clients with TemporalOptions.Secure; nil if the server requires
// none. It is valid after Start and stays the same across restarts.
func (t *Temporal) TLS() *Certificate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tls
}

// Kill ends the server like a crash. It can be started again.
func (t *Temporal) Kill() {
	t.mu.Lock()
	c := t.child
	t.mu.Unlock()
	if c != nil {
		c.kill()
	}
}

func (t *Temporal) start(ctx context.Context) (_ lifecycle.Run, err error) {
	if err := os.MkdirAll(t.opts.Dir, 0o700); err != nil {
		return lifecycle.Run{}, err
	}
	lock, err := lockDir(t.opts.Dir)
	if err != nil {
		return lifecycle.Run{}, err
	}
	defer func() {
		if err != nil {
			_ = lock.release()
		}
	}()
	program, err := FindTemporal()
	if err != nil {
		return lifecycle.Run{}, err
	}
	if err := t.secure(program); err != nil {
		return lifecycle.Run{}, err
	}
	store := filepath.Join(t.opts.Dir, "temporal.db")
	pidFile := filepath.Join(t.opts.Dir, "pid")
	if err := endOrphan(ctx, pidFile, store, syscall.SIGKILL); err != nil {
		return lifecycle.Run{}, err
	}
	for {
		port, err := choosePort(t.port)
		if err != nil {
			return lifecycle.Run{}, err
		}
		c, err := t.command(program, store, port).start()
		if err != nil {
			return lifecycle.Run{}, err
		}
		if t.opts.Background {
			if err := nice.Group(c.process.Pid); err != nil {
				t.opts.Log.Warn("cannot lower the priority of temporal; it competes with searches", "error", err)
			}
		}
		err = os.WriteFile(pidFile, []byte(strconv.Itoa(c.process.Pid)+"\n"), 0o600)
		if err == nil {
			err = t.await(ctx, c, port)
		}
		if err != nil {
			c.kill()
			// The server also takes further ports, which it chooses itself.
			if ctx.Err() == nil && (t.port == 0 || !taken(t.port)) && c.portTaken() {
				continue
			}
			return lifecycle.Run{}, err
		}
		t.mu.Lock()
		t.port, t.child = port, c
		t.mu.Unlock()
		t.opts.Log.Info("temporal is ready", "dir", t.opts.Dir, "port", port, "program", program.Path)
		return childRun(c, lock), nil
	}
}

// secure makes the certificate for the server and its clients, once.
func (t *Temporal) secure(program TemporalProgram) error {
	if !t.opts.Secure || t.TLS() != nil {
		return nil
	}
	if program.Official {
		t.opts.Log.Warn("this Temporal server asks for no password: every user of this machine can read and end workflows; "+
			"`tools/setup temporal` builds one that does", "program", program.Path)
		return nil
	}
	c, err := newCertificate(t.opts.Dir, "temporal.sluice.local")
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tls = &c
	return nil
}

func (t *Temporal) command(program TemporalProgram, store string, port int) command {
	var args []string
	if program.Official {
		args = []string{"server", "start-dev", "--headless", "--namespace", Namespace}
	} else {
		args = []string{"--exit-with-stdin", "--namespace", Namespace}
	}
	args = append(args, "--db-filename", store, "--ip", Host, "--port", strconv.Itoa(port), "--log-level", "error")
	if c := t.TLS(); c != nil {
		args = append(args, "--tls-ca", c.CA, "--tls-cert", c.Cert, "--tls-key", c.Key, "--tls-server-name", c.ServerName)
	}
	return command{
		path: program.Path,
		args: args,
		log:  filepath.Join(t.opts.Dir, "server.log"),
		stop: syscall.SIGTERM, cut: syscall.SIGKILL, death: syscall.SIGKILL,
		holdStdin: !program.Official,
	}
}

// await waits until the server serves and has its namespace.
func (t *Temporal) await(ctx context.Context, c *child, port int) (err error) {
	transport := insecure.NewCredentials()
	if own := t.TLS(); own != nil {
		config, err := own.config()
		if err != nil {
			return err
		}
		transport = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(net.JoinHostPort(Host, strconv.Itoa(port)), grpc.WithTransportCredentials(transport))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	health, frontend := grpc_health_v1.NewHealthClient(conn), workflowservice.NewWorkflowServiceClient(conn)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// gRPC's backoff between attempts to connect grows to seconds.
		conn.ResetConnectBackoff()
		err := askTemporal(ctx, health, frontend)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.done:
			if t.TLS() != nil && strings.Contains(c.tail(), "not defined: -tls-ca") {
				return fmt.Errorf("%s is of an older version, which cannot require certificates; run `make setup`: %w", c.path, c.failure())
			}
			return c.failure()
		case <-ctx.Done():
			return fmt.Errorf("waiting for temporal on port %d: %w: %w\n%s", port, context.Cause(ctx), err, c.tail())
		}
	}
}

func askTemporal(ctx context.Context, health grpc_health_v1.HealthClient, frontend workflowservice.WorkflowServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	reply, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: temporalHealth})
	if err != nil {
		return err
	}
	if reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("its health is %s", reply.GetStatus())
	}
	_, err = frontend.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
	return err
}
