// This file runs the NATS server as a service: in this process, with JetStream stored in a
// directory.

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

// NATSOptions are the options of a NATS server.
type NATSOptions struct {
	// Dir holds the streams; it is created if missing. It may be wiped while the server is stopped.
	Dir string
	// Port to listen on; 0: a free one, which stays the same for the lifetime of the NATS value.
	Port int
	// ProgramsAlone leaves out the user of URL, who has all permissions.
	ProgramsAlone bool
	// Log gets the server's warnings and errors; nil discards them.
	Log *slog.Logger
}

// NATS is a NATS server with JetStream. Each program has credentials with the permissions that it
// needs (wire.AccessOf). URL has all permissions, and is for the process that started the server.
type NATS struct {
	*lifecycle.Func

	opts     NATSOptions
	password string
	seeds    map[wire.Program][]byte
	ran      bool // a server has had the port; only serve uses it

	mu      sync.Mutex
	port    int
	trouble error
}

// NewNATS checks the options; Start starts the server.
func NewNATS(opts NATSOptions) (*NATS, error) {
	if err := checkOptions("nats", &opts.Dir, opts.Port, &opts.Log); err != nil {
		return nil, err
	}
	n := &NATS{opts: opts, password: newSecret(), seeds: map[wire.Program][]byte{}, port: opts.Port}
	for _, p := range wire.Programs() {
		pair, err := nkeys.CreateUser()
		if err == nil {
			n.seeds[p], err = pair.Seed()
		}
		if err != nil {
			return nil, fmt.Errorf("local nats: make the credentials of %s: %w", p, err)
		}
	}
	n.Func = lifecycle.NewFunc("nats", n.start)
	return n, nil
}

// StartNATS makes and starts a server.
func StartNATS(ctx context.Context, opts NATSOptions) (*NATS, error) {
	n, err := NewNATS(opts)
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// URL returns the address for clients with all permissions. It is valid after Start and stays the
// same across restarts.
func (n *NATS) URL() string { return n.url(admin + ":" + n.password + "@") }

// Address returns the address for programs with credentials. It is valid as long as URL.
func (n *NATS) Address() string { return n.url("") }

func (n *NATS) url(user string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("nats://%s%s:%d", user, Host, n.port)
}

// Seed returns the NKey seed of a program's credentials.
func (n *NATS) Seed(p wire.Program) []byte { return slices.Clone(n.seeds[p]) }

// SeedFile writes a program's seed to a file that only this user can read, for a program in another
// process.
func (n *NATS) SeedFile(p wire.Program) (string, error) {
	file := filepath.Join(n.opts.Dir, string(p)+".nk")
	// Remove an existing file, because WriteFile would keep its mode.
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write the credentials of %s: %w", p, err)
	}
	if err := os.WriteFile(file, n.seeds[p], 0o600); err != nil {
		return "", fmt.Errorf("write the credentials of %s: %w", p, err)
	}
	return file, nil
}

// admin is the user with all permissions.
const admin = "sluice"

// programs returns the users of programs.
func (n *NATS) programs() ([]*server.NkeyUser, error) {
	var out []*server.NkeyUser
	for _, p := range wire.Programs() {
		pair, err := nkeys.FromSeed(n.seeds[p])
		if err != nil {
			return nil, err
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, err
		}
		a := wire.AccessOf(p)
		out = append(out, &server.NkeyUser{Nkey: public, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: a.Publish}, Subscribe: &server.SubjectPermission{Allow: a.Subscribe}}})
	}
	return out, nil
}

func (n *NATS) start(ctx context.Context) (_ lifecycle.Run, err error) {
	if err := os.MkdirAll(n.opts.Dir, 0o700); err != nil {
		return lifecycle.Run{}, err
	}
	lock, err := lockDir(n.opts.Dir)
	if err != nil {
		return lifecycle.Run{}, err
	}
	defer func() {
		if err != nil {
			_ = lock.release()
		}
	}()
	srv, err := n.serve(ctx)
	if err != nil {
		return lifecycle.Run{}, err
	}
	n.opts.Log.Info("nats is ready", "dir", n.opts.Dir, "port", n.port)

	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	var failure error
	go func() {
		defer close(done)
		failure = n.watch(watching, srv)
		failure = errors.Join(failure, lock.release())
	}()
	return lifecycle.Run{Done: done, Err: func() error { return failure }, Stop: func(context.Context) error {
		// Shutting down flushes the streams and closes the connections. It takes milliseconds and
		// cannot be interrupted.
		stop()
		<-done
		return nil
	}}, nil
}

// serve starts a server, on the port of the previous one.
func (n *NATS) serve(ctx context.Context) (*server.Server, error) {
	port := n.port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	if n.ran {
		if err := awaitPort(ctx, port); err != nil {
			return nil, err
		}
	}
	programs, err := n.programs()
	if err != nil {
		return nil, fmt.Errorf("users of programs: %w", err)
	}
	var all []*server.User
	if !n.opts.ProgramsAlone {
		all = append(all, &server.User{Username: admin, Password: n.password})
	}
	log := natsLog{log: n.opts.Log, fatal: make(chan error, 1)}
	srv, err := server.NewServer(&server.Options{
		ServerName:             "sluice-local",
		Host:                   Host,
		Port:                   port,
		Users:                  all,
		Nkeys:                  programs,
		JetStream:              true,
		StoreDir:               n.opts.Dir,
		JetStreamMaxMemory:     256 << 20,
		JetStreamMaxStore:      1 << 40, // no limit in effect: a share of what is free now would be too little when the disk was full
		DisableJetStreamBanner: true,
		NoSigs:                 true, // our program handles signals
		// A client that vanished gets no more requests after half a minute.
		PingInterval: 10 * time.Second,
		MaxPingsOut:  2,
	})
	if err != nil {
		return nil, err
	}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if err := awaitNATS(ctx, srv, log.fatal); err != nil {
		end(srv)
		return nil, err
	}
	if !srv.JetStreamEnabled() {
		end(srv)
		return nil, fmt.Errorf("JetStream doesn't start on %s", n.opts.Dir)
	}
	n.mu.Lock()
	n.port = srv.Addr().(*net.TCPAddr).Port
	n.mu.Unlock()
	n.ran = true
	return srv, nil
}

func end(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

func awaitNATS(ctx context.Context, srv *server.Server, fatal <-chan error) error {
	for !srv.ReadyForConnections(20 * time.Millisecond) {
		select {
		case err := <-fatal:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
	}
	return nil
}

// natsLog passes the server's messages to slog. The server's notices have the level debug, because
// they do not help our users.
type natsLog struct {
	log   *slog.Logger
	fatal chan error // gets the first fatal error, which the server reports only to its log
}

func (l natsLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l natsLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l natsLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

func (l natsLog) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

func (l natsLog) write(level slog.Level, format string, v []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, fmt.Sprintf(format, v...), "part", "nats")
	}
}
