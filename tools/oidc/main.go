// Command oidc-server is an OpenID Connect provider for tests: zitadel's library, with users from a
// file and two clients. It is not part of the product, and must not be used to sign in anywhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		slog.Error("oidc-server failed", "error", err)
		os.Exit(1)
	}
}

// options are the command line's options.
type options struct {
	listen, issuer string
	users          string
	client, secret string
	redirect       string
	exitWithStdin  bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("oidc-server", flag.ContinueOnError)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:7080", "`address` of the provider")
	fs.StringVar(&o.issuer, "issuer", "", "`address` that it calls itself; http:// and that of --listen when empty")
	fs.StringVar(&o.users, "users", "", "JSON `file` with the users, read again for everything")
	fs.StringVar(&o.client, "client-id", "sluice", "`id` of the client of browsers; that of access tokens is assistant")
	fs.StringVar(&o.secret, "client-secret", "", "its `secret`")
	fs.StringVar(&o.redirect, "redirect", "http://127.0.0.1:*/v1/session/oidc/callback", "`pattern` of the addresses that browsers are sent back to")
	fs.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop when standard input closes, so that the server ends with its parent")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.issuer == "" {
		o.issuer = "http://" + o.listen
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.users == "":
		return o, errors.New("--users: needed")
	case o.secret == "":
		return o, errors.New("--client-secret: needed")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdin io.Reader) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if o.exitWithStdin {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	server := &http.Server{Addr: o.listen, Handler: provider(o), ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
