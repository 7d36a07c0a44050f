// Command temporal-server is the Temporal server that Sluice runs for itself on one machine: every service in one
// process, stored in one SQLite file, one open port (the frontend), namespace "default" ready for use.
//
// It exists because the official command line tool can't be built with "go install". It is not meant for a cluster:
// there, run Temporal as its own documentation says and set SLUICE_TEMPORAL_ADDRESS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		slog.Error("temporal-server failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if opts.exitWithStdin {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}

	srv, err := newServer(opts)
	if err != nil {
		return err
	}
	if err := srv.Start(); err != nil {
		return fmt.Errorf("starting on %s:%d: %w", opts.ip, opts.port, err)
	}
	<-ctx.Done()
	// By the time a caller hears of a change it is a committed SQLite transaction, so there is nothing to finish. The
	// server's own Stop would drain its internal queues for two seconds first.
	return nil
}

// options are what the command line says.
type options struct {
	dbFilename    string
	ip            string
	port          int
	logLevel      string
	namespace     string
	exitWithStdin bool
	tls           certificate
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("temporal-server", flag.ContinueOnError)
	fs.StringVar(&o.dbFilename, "db-filename", "", "SQLite `file` that holds the state; created when missing")
	fs.StringVar(&o.ip, "ip", "127.0.0.1", "`address` the frontend listens on")
	fs.IntVar(&o.port, "port", 7233, "`port` the frontend listens on")
	fs.StringVar(&o.logLevel, "log-level", "error", "debug, info, warn or error")
	fs.StringVar(&o.namespace, "namespace", "default", "`namespace` registered at the start")
	fs.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop when standard input closes, so that the server ends with its parent")
	fs.StringVar(&o.tls.authority, "tls-ca", "", "`file` with the certificate of who signed all others; with it every port asks for one that it signed")
	fs.StringVar(&o.tls.cert, "tls-cert", "", "`file` with the server's certificate")
	fs.StringVar(&o.tls.key, "tls-key", "", "`file` with its key")
	fs.StringVar(&o.tls.name, "tls-server-name", "", "`name` that it is made out to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.dbFilename == "":
		return o, errors.New("--db-filename: needed")
	case o.port < 1 || o.port > 65535:
		return o, fmt.Errorf("--port: %d is not between 1 and 65535", o.port)
	}
	if set := o.tls.set(); set != 0 && set != 4 {
		return o, errors.New("--tls-ca, --tls-cert, --tls-key and --tls-server-name: all or none are needed")
	}
	switch o.logLevel {
	case "debug", "info", "warn", "error":
	default:
		return o, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", o.logLevel)
	}
	return o, nil
}
