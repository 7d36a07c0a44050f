// Command temporal-server is the Temporal server that Sluice runs for itself on one machine: every
// service in one process, stored in one SQLite file, one open port (the frontend), namespace
// "default" ready for use.
//
// It exists because the official command line tool can't be built with "go install". With
// --postgres it is a member of a cluster instead: servers of one database share its workflows, and
// one that dies leaves its own to the others. They have the same --port and --history-shards and
// addresses of their own. Our tests of clusters run it so; a cluster that is to be kept runs
// Temporal as its own documentation says, and SLUICE_TEMPORAL_ADDRESS names it.
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

	srv, err := newServer(ctx, opts)
	if err != nil {
		return err
	}
	if err := srv.Start(); err != nil {
		return fmt.Errorf("starting on %s:%d: %w", opts.ip, opts.port, err)
	}
	if opts.postgres != "" {
		// A member that cannot register the namespace is useless. Its supervisor starts it again.
		if err := registerNamespace(ctx, opts); err != nil && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	// When a caller is notified of a change, its transaction is committed, so there is nothing to
	// finish. The server's own Stop would first drain its internal queues for two seconds.
	return nil
}

// options are the command line's options.
type options struct {
	dbFilename    string
	postgres      string
	shards        int32
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
	fs.StringVar(&o.postgres, "postgres", "", "`URL` of a database in place of a file, which servers share; created when missing, with another one beside it")
	shards := fs.Int("history-shards", historyShards, "into how many `parts` workflows are divided, for the life of the database: members share them")
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
	case (o.dbFilename == "") == (o.postgres == ""):
		return o, errors.New("--db-filename or --postgres: one is needed")
	case *shards < 1 || *shards > 16384:
		return o, fmt.Errorf("--history-shards: %d is not between 1 and 16384", *shards)
	case o.postgres == "" && *shards != historyShards:
		return o, fmt.Errorf("--history-shards: a file always has %d", historyShards)
	case o.postgres != "" && o.tls.set() != 0:
		return o, errors.New("--tls-ca: members of a cluster are not given certificates")
	case o.port < 1 || o.port > 65535:
		return o, fmt.Errorf("--port: %d is not between 1 and 65535", o.port)
	case o.postgres != "" && o.port > 65536-servicePorts:
		return o, fmt.Errorf("--port: a member takes %d ports from %d on", servicePorts, o.port)
	}
	o.shards = int32(*shards)
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
