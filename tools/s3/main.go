// Command s3-server is an S3 server for tests: Versity's gateway over a folder, with one account.
// It is not part of the product, and must not be used to keep data.
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
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3log"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		slog.Error("s3-server failed", "error", err)
		os.Exit(1)
	}
}

// options are the command line's options.
type options struct {
	dir, listen, region string
	access, secret      string
	exitWithStdin       bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("s3-server", flag.ContinueOnError)
	fs.StringVar(&o.dir, "dir", "", "`folder` that holds the buckets, a folder each, and the attributes of objects")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:7070", "`address` of the API")
	fs.StringVar(&o.region, "region", "us-east-1", "`name` of the region")
	fs.StringVar(&o.access, "access-key", "", "access `key` of the one account")
	fs.StringVar(&o.secret, "secret-key", "", "its secret `key`")
	fs.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop when standard input closes, so that the server ends with its parent")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.dir == "":
		return o, errors.New("--dir: needed")
	case o.access == "" || o.secret == "":
		return o, errors.New("--access-key and --secret-key: needed")
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
	server, err := newServer(o)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeMultiPort([]string{o.listen}) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", o.listen, err)
	case <-ctx.Done():
		// Acknowledged writes are in their files; requests in progress are cut off.
		return nil
	}
}

// newServer prepares the folder and builds the server, which does not listen yet.
func newServer(o options) (*s3api.S3ApiServer, error) {
	objects, attributes := filepath.Join(o.dir, "objects"), filepath.Join(o.dir, "attributes")
	for _, dir := range []string{objects, attributes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	// Attributes are kept in separate files, because not every file system in tests has extended
	// attributes.
	kept, err := meta.NewSideCar(attributes)
	if err != nil {
		return nil, fmt.Errorf("attributes of objects: %w", err)
	}
	folder, err := posix.New(objects, kept, posix.PosixOpts{SideCarDir: attributes})
	if err != nil {
		return nil, fmt.Errorf("folder of objects: %w", err)
	}
	account := auth.Account{Access: o.access, Secret: o.secret, Role: auth.RoleAdmin}
	logs, err := s3log.InitLogger(&s3log.LogConfig{})
	if err != nil {
		return nil, err
	}
	server, err := s3api.New(folder, middlewares.RootUserConfig{Access: o.access, Secret: o.secret}, o.region, oneAccount{auth.NewIAMServiceSingle(account)},
		logs.S3Logger, logs.AdminLogger, nil, nil, s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithConcurrencyLimiter(1024, 512), s3api.WithMpMaxParts(10_000))
	if err != nil {
		return nil, fmt.Errorf("build the server: %w", err)
	}
	return server, nil
}

// oneAccount returns InvalidAccessKeyId for other keys, as S3 does. The gateway itself only does so
// for services with several accounts.
type oneAccount struct{ auth.IAMService }

// GetUserAccount implements auth.IAMService.
func (a oneAccount) GetUserAccount(access string) (auth.Account, error) {
	account, err := a.IAMService.GetUserAccount(access)
	if err != nil {
		return account, auth.ErrNoSuchUser
	}
	return account, nil
}
