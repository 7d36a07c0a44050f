// This file is the NATS server as a service: in this process, with JetStream stored in a directory.

package local

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// NATSOptions say where and how the NATS server runs.
type NATSOptions struct {
	// Dir holds the streams; it is created when missing. Wiping it while the server is stopped is allowed.
	Dir string
	// Port to listen on; 0 takes a free one, which is kept for as long as the NATS value lives.
	Port int
	// Log gets the server's warnings and errors; nil discards them.
	Log *slog.Logger
}

// NATS is a NATS server with JetStream. Clients need the token that is part of its URL.
type NATS struct {
	*lifecycle.Func

	opts  NATSOptions
	token string

	mu   sync.Mutex
	port int
}

// NewNATS checks the options; Start does the work.
func NewNATS(opts NATSOptions) (*NATS, error) {
	if err := settle("nats", &opts.Dir, opts.Port, &opts.Log); err != nil {
		return nil, err
	}
	n := &NATS{opts: opts, token: newSecret(), port: opts.Port}
	n.Func = lifecycle.NewFunc("nats", n.start)
	return n, nil
}

// StartNATS makes and starts one.
func StartNATS(ctx context.Context, opts NATSOptions) (*NATS, error) {
	n, err := NewNATS(opts)
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// URL is what clients connect to. It is valid after Start and stays the same over later starts.
func (n *NATS) URL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("nats://%s@%s:%d", n.token, Host, n.port)
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
			_ = lock.Close()
		}
	}()
	port := n.port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	log := natsLog{log: n.opts.Log, fatal: make(chan error, 1)}
	srv, err := server.NewServer(&server.Options{
		ServerName:             "sluice-local",
		Host:                   Host,
		Port:                   port,
		Authorization:          n.token,
		JetStream:              true,
		StoreDir:               n.opts.Dir,
		JetStreamMaxMemory:     256 << 20,
		DisableJetStreamBanner: true,
		NoSigs:                 true, // signals are our program's business
		// A client that is gone without a word gets no more requests after half a minute.
		PingInterval: 10 * time.Second,
		MaxPingsOut:  2,
	})
	if err != nil {
		return lifecycle.Run{}, err
	}
	srv.SetLoggerV2(log, false, false, false)
	end := func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	srv.Start()
	if err := awaitNATS(ctx, srv, log.fatal); err != nil {
		end()
		return lifecycle.Run{}, err
	}
	if !srv.JetStreamEnabled() {
		end()
		return lifecycle.Run{}, fmt.Errorf("JetStream doesn't start on %s", n.opts.Dir)
	}
	n.mu.Lock()
	n.port = srv.Addr().(*net.TCPAddr).Port
	n.mu.Unlock()
	n.opts.Log.Info("nats is ready", "dir", n.opts.Dir, "port", n.port)

	done := make(chan struct{})
	return lifecycle.Run{Done: done, Stop: func(context.Context) error {
		// Shutting down flushes the streams and closes the connections: a matter of milliseconds that can't be cut.
		end()
		close(done)
		return lock.Close()
	}}, nil
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

// natsLog gives the server's messages to slog. The server's notices are of no use to our users: they go to debug.
type natsLog struct {
	log   *slog.Logger
	fatal chan error // gets the first error that the server can't go on after: it tells nobody else
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
