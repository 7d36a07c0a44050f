package modelpack

// This file fetches a model's files from a hub in Hugging Face's layout:
// /{org}/{name}/resolve/{revision}/{file}. The hub is a setting without a default: Sluice connects
// to no server unless it is told to.

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// HubPrefix begins the name of a model on a hub: hf:org/name, or hf:org/name@revision.
const HubPrefix = "hf:"

var (
	hubName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$`)
	commit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

type hub struct {
	address  *url.URL
	client   *http.Client
	model    string
	revision string
	commit   string // the commit that the hub reports for the revision
}

// newHub parses the text after HubPrefix.
func newHub(address, spec string, client *http.Client) (*hub, error) {
	name, rev, named := strings.Cut(spec, "@")
	if !named {
		rev = "main"
	}
	switch {
	case address == "":
		return nil, schema.Invalid("SLUICE_HUB_URL", "is not set; set it to the address of a hub in Hugging Face's layout, its own or a mirror, to fetch %s%s", HubPrefix, spec)
	case !hubName.MatchString(name) || strings.Contains(name, ".."):
		return nil, schema.Invalid("model", "%q is not the name of a model on a hub, such as %sorg/name", spec, HubPrefix)
	case !revision.MatchString(rev) || strings.Contains(rev, ".."):
		return nil, schema.Invalid("model", "%q is no revision: a branch, a tag or a commit", rev)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, schema.Invalid("SLUICE_HUB_URL", "%q is not an http or https address", address)
	}
	if client == nil {
		// Limit the wait for a response's header, but not the time of a download: large files take
		// long.
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = 30 * time.Second
		client = &http.Client{Transport: transport}
	}
	return &hub{address: base, client: client, model: name, revision: rev}, nil
}

func (h *hub) open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	rev := h.revision
	if h.commit != "" {
		rev = h.commit // all files are from the same commit, even if the revision moves meanwhile
	}
	address := h.address.JoinPath(strings.Split(h.model, "/")...).JoinPath("resolve", url.PathEscape(rev)).JoinPath(strings.Split(name, "/")...)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch %s: %w", address.Redacted(), err)
	}
	request.Header.Set("User-Agent", "sluice")
	response, err := h.client.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch %s of %s (SLUICE_HUB_URL): %w: %w", name, h.model, err, schema.ErrUnavailable)
	}
	fail := func(err error) (io.ReadCloser, int64, error) {
		_ = response.Body.Close()
		return nil, 0, err
	}
	switch code := response.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound:
		return fail(fmt.Errorf("%s has no %s at revision %s: %w", h.model, name, h.revision, fs.ErrNotExist))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fail(fmt.Errorf("%s of %s: the hub says %s: there is no such model, or it is not public; fetch it by other means and add its folder: %w",
			name, h.model, response.Status, schema.ErrForbidden))
	default:
		return fail(fmt.Errorf("%s of %s: the hub says %s; try again: %w", name, h.model, response.Status, schema.ErrUnavailable))
	}
	for r := response; r != nil; r = r.Request.Response { // a redirect to the file's storage has the header too
		if c := r.Header.Get("X-Repo-Commit"); commit.MatchString(c) && h.commit == "" {
			h.commit = c
		}
	}
	return response.Body, response.ContentLength, nil
}

func (h *hub) label() string {
	rev := h.revision
	if h.commit != "" {
		rev = h.commit
	}
	return HubPrefix + h.model + "@" + rev
}

func (h *hub) base() string { return h.model[strings.LastIndexByte(h.model, '/')+1:] }
