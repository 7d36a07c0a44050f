// Package rclonefs connects sources to file services by rclone's backends: S3, WebDAV, SFTP, SMB,
// and the drives and buckets of clouds. The backends are used as a library: rclone's configuration,
// in files and the environment, is neither read nor written.
package rclonefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/config/configmap"
	"github.com/rclone/rclone/fs/hash"
	"github.com/rclone/rclone/lib/atexit"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// maxAttempts is how often a request with a temporary error is tried. The synchronisation tries
	// again later.
	maxAttempts = 3
	// idleTimeout is how long a connection may be silent.
	idleTimeout = time.Minute
	// probeName is a name that no file has. Looking it up is a small request that shows whether the
	// service accepts the credentials.
	probeName = "sluice-access-check"
)

// silenceRclone turns off rclone's log on standard error; errors are returned anyway. It also keeps
// rclone from ending the process on a signal, which is left to the program.
var silenceRclone = sync.OnceFunc(func() {
	fs.GetConfig(context.Background()).LogLevel = fs.LogLevelEmergency
	atexit.IgnoreSignals()
})

// connector is a connection to one service by one backend.
type connector struct {
	kind  *kind
	fs    fs.Fs
	hash  hash.Type
	proxy *guard.Proxy // nil: not needed
	page  int          // maximum number of items on a page of a listing

	baseCtx context.Context // has rclone's settings; Close cancels it
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	walk   *walk
	cursor string // of the next page of walk
}

// open connects to a service.
func (k *kind) open(ctx context.Context, settings source.Settings) (source.Connector, error) {
	silenceRclone()
	g := guard.New(ctx, settings.AllowPrivate)
	target, err := k.settings(ctx, settings.Values, g)
	if err != nil {
		return nil, err
	}
	c := &connector{kind: k, page: cmp.Or(k.page, pageItems)}
	baseCtx, config := fs.AddConfig(context.WithoutCancel(ctx))
	c.baseCtx, c.cancel = context.WithCancel(baseCtx)
	config.LowLevelRetries, config.MaxStatsGroups = maxAttempts, 1
	config.Timeout, config.ConnectTimeout = fs.Duration(idleTimeout), fs.Duration(15*time.Second)
	config.UseServerModTime = true // otherwise S3 is asked for the modification time of each object
	config.UserAgent = "sluice-source-worker"
	if !g.AllowsAll() || k.tunnel {
		if c.proxy, err = g.NewProxy(); err != nil {
			c.cancel()
			return nil, err
		}
		if k.tunnel {
			target.options["http_proxy"] = c.proxy.URL()
		} else {
			config.HTTPProxy = c.proxy.URL()
		}
	}
	if err := c.connect(ctx, target); err != nil {
		_ = c.Close()
		return nil, err
	}
	if !settings.Permissions {
		return c, nil
	}
	t, err := newAccessConnector(c, settings)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}

// connect creates the backend and checks that the service accepts the credentials.
func (c *connector) connect(ctx context.Context, target target) error {
	backend, err := fs.Find(c.kind.backend)
	if err != nil {
		return fmt.Errorf("find rclone's backend: %w", err)
	}
	options := configmap.Simple{}
	for _, o := range backend.Options {
		options[o.Name] = o.String()
	}
	for name, value := range target.options {
		options[name] = value
	}
	err = c.do(ctx, func(context.Context) error {
		if c.kind.signsIn {
			if _, err := backend.Config(c.baseCtx, c.kind.backend, options, fs.ConfigIn{}); err != nil {
				return err
			}
		}
		newFs, err := backend.NewFs(c.baseCtx, c.kind.backend, target.root, options)
		if err != nil && !errors.Is(err, fs.ErrorIsFile) {
			return err
		}
		c.fs = newFs
		return err
	})
	if errors.Is(err, fs.ErrorIsFile) {
		return &source.FieldError{Field: c.kind.rootField, Reason: "it is a file; a folder is needed"}
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.kind.name, c.failure(ctx, err))
	}
	if !c.fs.Features().SlowHash {
		c.hash = c.fs.Hashes().GetOne()
	}
	err = c.do(ctx, func(ctx context.Context) error {
		_, err := c.fs.NewObject(ctx, probeName)
		return err
	})
	if err == nil || isNotFound(err) {
		return nil
	}
	return fmt.Errorf("connect to %s: %w", c.kind.name, c.failure(ctx, err))
}

// do calls f with rclone's settings, and returns when f does or ctx ends. Some backends go on until
// their connection has been silent for too long; Close waits for them.
func (c *connector) do(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	callCtx, cancel := context.WithCancel(fs.CopyConfig(ctx, c.baseCtx))
	stop := context.AfterFunc(c.baseCtx, cancel)
	done := make(chan error, 1)
	c.running.Go(func() {
		defer stop()
		done <- f(callCtx)
	})
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// List implements source.Connector.
func (c *connector) List(ctx context.Context, cursor string) (source.Listing, error) {
	var pos position
	if cursor != "" {
		if err := source.ReadCursor(cursor, &pos); err != nil {
			return source.Listing{}, err
		}
	}
	w := c.takeWalk(cursor)
	if w == nil {
		w = newWalk(c, pos)
	}
	page, err := w.page(ctx)
	if err != nil {
		return source.Listing{}, fmt.Errorf("list %s %q: %w", c.kind.name, w.pos.Dir, err)
	}
	if page.Next != "" {
		c.saveWalk(w, page.Next)
	}
	return page, nil
}

// takeWalk returns the walk that is kept at a cursor, and gives it to the caller.
func (c *connector) takeWalk(cursor string) *walk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cursor == "" || c.cursor != cursor {
		return nil
	}
	w := c.walk
	c.walk, c.cursor = nil, ""
	return w
}

func (c *connector) saveWalk(w *walk, cursor string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.walk, c.cursor = w, cursor
}

// item returns the item of a file.
func (c *connector) item(ctx context.Context, o fs.Object) source.Item {
	modified := o.ModTime(ctx)
	return source.Item{ID: id(o), Path: o.Remote(), Version: c.version(o, modified), Size: max(o.Size(), -1), Modified: modified}
}

// id returns the service's id of a file if there is one, else the path.
func id(o fs.Object) string {
	if ider, ok := o.(fs.IDer); ok && ider.ID() != "" {
		return ider.ID()
	}
	return o.Remote()
}

// version returns the hash of a file if the listing included it, else its size and time.
func (c *connector) version(o fs.Object, modified time.Time) string {
	if c.hash != hash.None {
		// A cancelled context makes Hash fail if it needs a request.
		cancelled, cancel := context.WithCancel(c.baseCtx)
		cancel()
		if sum, err := o.Hash(cancelled, c.hash); err == nil && sum != "" {
			return c.hash.String() + ":" + sum
		}
	}
	return strconv.FormatInt(o.Size(), 10) + ":" + strconv.FormatInt(modified.UnixNano(), 10)
}

// Fetch implements source.Connector.
func (c *connector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	download, err := c.fetch(ctx, item)
	if err != nil {
		return source.Download{}, fmt.Errorf("fetch %s from %s: %w", item.Path, c.kind.name, err)
	}
	return download, nil
}

func (c *connector) fetch(ctx context.Context, item source.Item) (source.Download, error) {
	var o fs.Object
	var body io.ReadCloser
	err := c.do(ctx, func(ctx context.Context) (err error) {
		o, err = c.fs.NewObject(ctx, item.Path)
		return err
	})
	if err == nil && id(o) != item.ID {
		return source.Download{}, &source.ItemError{Reason: "another file has its path now"}
	}
	if err == nil {
		// The body is read with the caller's context, which outlives this call.
		opened := make(chan struct{})
		err = c.do(ctx, func(context.Context) (err error) {
			defer close(opened)
			body, err = o.Open(fs.CopyConfig(ctx, c.baseCtx))
			return err
		})
		if err != nil && ctx.Err() != nil {
			c.running.Go(func() {
				<-opened
				if body != nil {
					_ = body.Close()
				}
			})
		}
	}
	if isNotFound(err) {
		return source.Download{}, source.ErrGone
	}
	if err != nil {
		err = c.failure(ctx, err)
		if errors.Is(err, errForbidden) {
			return source.Download{}, &source.ItemError{Reason: "the source's server refuses access to the file"}
		}
		return source.Download{}, err
	}
	download := source.Download{Body: c.body(ctx, body, o), Version: c.version(o, o.ModTime(ctx))}
	if typed, ok := o.(fs.MimeTyper); ok {
		download.MediaType = typed.MimeType(ctx)
	}
	return download, nil
}

// Close implements source.Connector.
func (c *connector) Close() error {
	c.cancel()
	if c.proxy != nil {
		c.proxy.Close()
	}
	c.running.Wait()
	if c.fs == nil {
		return nil
	}
	if shutdown := c.fs.Features().Shutdown; shutdown != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.baseCtx), idleTimeout)
		defer cancel()
		_ = shutdown(ctx) // everything has been read, so connections that do not close cleanly do not matter
	}
	return nil
}
