// Package git connects sources to git repositories, over HTTP and SSH. It fetches one commit,
// without its history, into a temporary folder, which Close removes.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/cmd/source-worker/retry"
	"github.com/sluice-rag/sluice/cmd/source-worker/secret"
	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

// pageItems is the maximum number of files on a page of a listing.
const pageItems = 5000

var fields = []source.Field{
	{Name: "url", Summary: "address of the repository, such as https://git.example.org/team/handbook.git or ssh://git@git.example.org/team/handbook.git", Required: true},
	{Name: "branch", Summary: "branch to read; the one that the repository is on when empty"},
	{Name: "path", Summary: "folder to read, without a slash at the start; everything when empty"},
	{Name: "user", Summary: "name to sign in with over HTTP; git when empty"},
	{Name: "password", Summary: "password or access token, over HTTP", Secret: true},
	{Name: "private_key", Summary: "private key for SSH in OpenSSH's or PEM form, without a passphrase; a deploy key is best", Secret: true},
	{Name: "host_key", Summary: "the SSH server's public key, as `ssh-keyscan HOST` prints it behind the name: ssh-ed25519 AAAA..."},
	{Name: "max_megabytes", Summary: "how much may be fetched, up to 20480; 1024 when empty"},
}

// Driver returns the driver of git repositories.
func Driver() source.Driver { return secret.RedactErrors(driver(pageItems)) }

func driver(items int) source.Driver {
	return source.Driver{Name: "git", Summary: "A branch of a git repository.", Fields: fields,
		Open: func(ctx context.Context, settings source.Settings) (source.Connector, error) {
			r, err := open(ctx, settings)
			if err != nil {
				return nil, err
			}
			r.pageItems = items
			return r, nil
		}}
}

// repository is one branch of a repository.
type repository struct {
	remote    *gogit.Remote
	auth      transport.AuthMethod
	url       string
	branch    string // empty: the default branch
	path      string
	maxBytes  int64
	pageItems int
	proxy     *guard.Proxy // for HTTP; for SSH, the url has an address that may be dialled

	sem      chan struct{} // a semaphore that guards the fields below
	snapshot *snapshot     // nil until a commit is fetched
}

func open(ctx context.Context, settings source.Settings) (*repository, error) {
	v := settings.Values
	if err := setting.Check(fields, v); err != nil {
		return nil, err
	}
	megabytes, err := setting.Number("max_megabytes", v["max_megabytes"], 1, 20<<10, 1024)
	if err != nil {
		return nil, err
	}
	r := &repository{branch: v["branch"], path: strings.Trim(path.Clean("/"+v["path"]), "/"), maxBytes: int64(megabytes) << 20,
		sem: make(chan struct{}, 1)}
	if r.branch != "" && plumbing.NewBranchReferenceName(r.branch).Validate() != nil {
		return nil, &source.FieldError{Field: "branch", Reason: fmt.Sprintf("%q is not the name of a branch", r.branch)}
	}
	if err := r.configureRemote(ctx, v, guard.New(ctx, settings.AllowPrivate)); err != nil {
		_ = r.Close()
		return nil, err
	}
	r.remote = gogit.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{r.url}})
	if _, err := r.head(ctx); err != nil && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
		_ = r.Close()
		return nil, fmt.Errorf("open %s: %w", v["url"], err)
	}
	return r, nil
}

// configureRemote sets the url, the credentials and the proxy.
func (r *repository) configureRemote(ctx context.Context, v map[string]string, g *guard.Guard) error {
	endpoint, err := transport.NewEndpoint(v["url"])
	if err != nil || endpoint.Host == "" || endpoint.Password != "" || (endpoint.Protocol != "https" && endpoint.Protocol != "http" && endpoint.Protocol != "ssh") {
		return &source.FieldError{Field: "url", Reason: fmt.Sprintf("%q is not an address such as https://git.example.org/team/handbook.git", v["url"])}
	}
	address, err := g.Resolve(ctx, strings.Trim(endpoint.Host, "[]"))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &source.FieldError{Field: "url", Reason: err.Error()}
	}
	if endpoint.Protocol == "ssh" {
		if r.auth, err = newSSHAuth(endpoint.User, v["private_key"], v["host_key"]); err != nil {
			return err
		}
		endpoint.Host = address.String() // use the checked address, because the name may resolve to another one later
		if address.Is6() {
			endpoint.Host = "[" + endpoint.Host + "]"
		}
		r.url = endpoint.String()
		return nil
	}
	if endpoint.User != "" {
		return &source.FieldError{Field: "url", Reason: "user and password have settings of their own"}
	}
	if v["password"] != "" {
		user := v["user"]
		if user == "" {
			user = "git"
		}
		r.auth = &githttp.BasicAuth{Username: user, Password: v["password"]}
	}
	r.url = v["url"]
	r.proxy, err = g.NewProxy()
	return err
}

// proxyOptions returns the proxy options of connections.
func (r *repository) proxyOptions() transport.ProxyOptions {
	if r.proxy == nil {
		return transport.ProxyOptions{}
	}
	return transport.ProxyOptions{URL: r.proxy.URL()}
}

// head returns the commit that the branch is on.
func (r *repository) head(ctx context.Context) (plumbing.Hash, error) {
	refs, err := r.remote.ListContext(ctx, &gogit.ListOptions{Auth: r.auth, ProxyOptions: r.proxyOptions()})
	if err != nil {
		return plumbing.ZeroHash, r.failure(ctx, err)
	}
	refName := plumbing.HEAD
	if r.branch != "" {
		refName = plumbing.NewBranchReferenceName(r.branch)
	}
	for range 2 { // the first pass may only resolve HEAD to a branch
		for _, ref := range refs {
			if ref.Name() != refName {
				continue
			}
			if ref.Type() == plumbing.HashReference {
				return ref.Hash(), nil
			}
			refName = ref.Target()
			break
		}
	}
	return plumbing.ZeroHash, &source.FieldError{Field: "branch", Reason: fmt.Sprintf("the repository has no branch %s", refName.Short())}
}

// acquire acquires the semaphore.
func (r *repository) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case r.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *repository) release() { <-r.sem }

// Close implements source.Connector.
func (r *repository) Close() error {
	if r.proxy != nil {
		r.proxy.Close()
	}
	r.sem <- struct{}{}
	defer r.release()
	if r.snapshot == nil {
		return nil
	}
	defer func() { r.snapshot = nil }()
	return r.snapshot.remove()
}

// Fetch implements source.Connector.
func (r *repository) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	download, err := r.fetch(ctx, item)
	if err != nil {
		return source.Download{}, fmt.Errorf("fetch %s: %w", item.ID, err)
	}
	return download, nil
}

func (r *repository) fetch(ctx context.Context, item source.Item) (source.Download, error) {
	if err := r.acquire(ctx); err != nil {
		return source.Download{}, err
	}
	defer r.release()
	file, err := r.file(item.ID)
	if err != nil || file.Hash.String() != item.Version {
		// Nothing has been fetched yet, or the branch has moved since.
		if err := r.refresh(ctx); err != nil {
			return source.Download{}, err
		}
		if file, err = r.file(item.ID); err != nil {
			return source.Download{}, err
		}
	}
	reader, err := file.Reader()
	if err != nil {
		return source.Download{}, err
	}
	defer reader.Close()
	// go-git keeps the whole blob in memory anyway. The returned body must not need the semaphore.
	content, err := io.ReadAll(reader)
	if err != nil {
		return source.Download{}, err
	}
	if len(content) < 1024 && bytes.HasPrefix(content, []byte("version https://git-lfs.github.com/spec/")) {
		return source.Download{}, &source.ItemError{Reason: "its content is in Git LFS, which isn't read"}
	}
	return source.Download{Body: io.NopCloser(bytes.NewReader(content)), Version: file.Hash.String()}, nil
}

// file returns a file of the fetched commit.
func (r *repository) file(id string) (*object.File, error) {
	if r.snapshot == nil {
		return nil, source.ErrGone
	}
	file, err := r.snapshot.tree.File(id)
	if errors.Is(err, object.ErrFileNotFound) || errors.Is(err, object.ErrDirectoryNotFound) {
		return nil, source.ErrGone
	}
	return file, err
}

// refresh fetches the commit that the branch is on, unless it has been fetched.
func (r *repository) refresh(ctx context.Context) error {
	head, err := r.head(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return source.ErrGone
	}
	if err != nil || r.snapshot != nil && r.snapshot.commit == head {
		return err
	}
	fetched, err := r.fetchCommit(ctx, head)
	if err != nil {
		return err
	}
	if r.snapshot != nil {
		err = r.snapshot.remove()
	}
	r.snapshot = fetched
	return err
}

// failure converts an error of go-git.
func (r *repository) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.proxy != nil && r.proxy.Refused() != nil {
		return r.proxy.Refused()
	}
	var unexpected *plumbing.UnexpectedError
	var httpErr *githttp.Err
	var network *net.OpError
	switch {
	case errors.As(err, &unexpected) && errors.As(unexpected.Err, &httpErr):
		if httpErr.StatusCode() == http.StatusTooManyRequests {
			return &source.RateLimitError{After: retry.After(httpErr.Response.Header)}
		}
		return fmt.Errorf("the server answered %s", httpErr.Response.Status)
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed),
		errors.Is(err, transport.ErrInvalidAuthMethod), strings.Contains(err.Error(), "ssh: unable to authenticate"):
		return fmt.Errorf("%w: %w", source.ErrRefused, err)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		// Hosts also answer this for repositories that need other credentials.
		return &source.FieldError{Field: "url", Reason: "there is no such repository, or these credentials do not give access to it"}
	case errors.Is(err, errHostKey):
		return &source.FieldError{Field: "host_key", Reason: errHostKey.Error()}
	case errors.As(err, &network):
		return fmt.Errorf("reach the repository: %w", network)
	}
	return err
}
