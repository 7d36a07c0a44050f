// Package web connects sources to web sites: the pages that a sitemap lists, or those that can be
// reached by links from a start page. It obeys robots.txt, requests one page at a time, and uses
// conditional requests if the site supports them.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/temoto/robotstxt"
	"golang.org/x/time/rate"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/cmd/source-worker/retry"
	"github.com/sluice-rag/sluice/cmd/source-worker/secret"
	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// agent is the name that robots.txt may use for us.
	agent     = "Sluice"
	userAgent = agent + "/1.0 (document ingestion; keeps to robots.txt)"
	// pageItems is the maximum number of pages of a sitemap in a page of a listing, and crawlPages
	// the number of web pages read for one.
	pageItems, crawlPages = 500, 50
	maxRedirects          = 5
	maxRobotsBytes        = 500 << 10 // RFC 9309, 2.5
	maxPageBytes          = 16 << 20  // of a page that is parsed for links, or hashed for its version
	maxDelay              = 30 * time.Second
)

var fields = []source.Field{
	{Name: "url", Summary: "address of a sitemap, or of the page where reading begins", Required: true},
	{Name: "read", Summary: "what the address is; by its ending (.xml, .xml.gz) when empty", Values: []string{"sitemap", "crawl"}},
	{Name: "max_pages", Summary: "how many pages are read at most by links, up to 10000; 1000 when empty"},
	{Name: "max_depth", Summary: "how many links away from the start page, up to 20; 5 when empty"},
	{Name: "prefix", Summary: "beginning of the paths that belong to the site; the folder of the address, or everything for a sitemap, when empty"},
	{Name: "delay_ms", Summary: "least time between two requests in milliseconds; 200 when empty, and more where robots.txt asks for it"},
	{Name: "user", Summary: "name for HTTP basic authentication"},
	{Name: "password", Summary: "its password", Secret: true},
}

// Driver returns the driver of web sites.
func Driver() source.Driver { return secret.RedactErrors(driver(pageItems, crawlPages)) }

func driver(items, pages int) source.Driver {
	return source.Driver{Name: "web", Summary: "A web site, by its sitemap or by the links of its pages.", Fields: fields,
		Open: func(ctx context.Context, settings source.Settings) (source.Connector, error) {
			s, err := open(ctx, settings)
			if err != nil {
				return nil, err
			}
			s.pageItems, s.crawlPages = items, pages
			return s, nil
		}}
}

// site is one web site.
type site struct {
	start              *url.URL
	prefix             string
	sitemap            bool
	maxPages, maxDepth int
	user, password     string
	maxBytes           int64
	pageItems          int
	crawlPages         int

	client  *http.Client
	limiter *rate.Limiter

	mu     sync.Mutex
	robots *robotstxt.Group // nil until it is fetched

	listing     sync.Mutex
	lastSitemap map[string][]sitemapEntry // the sitemap that was read last, by its address
}

func open(ctx context.Context, settings source.Settings) (*site, error) {
	v := settings.Values
	if err := setting.Check(fields, v); err != nil {
		return nil, err
	}
	start, err := setting.HTTP("url", v["url"])
	if err != nil {
		return nil, err
	}
	s := &site{start: normalize(start), user: v["user"], password: v["password"], maxBytes: settings.MaxItemBytes}
	s.sitemap = v["read"] == "sitemap" || v["read"] == "" && (strings.HasSuffix(start.Path, ".xml") || strings.HasSuffix(start.Path, ".xml.gz"))
	switch s.prefix = v["prefix"]; {
	case s.prefix == "" && s.sitemap:
		s.prefix = "/"
	case s.prefix == "":
		s.prefix = s.start.Path[:strings.LastIndex(s.start.Path, "/")+1]
	case !strings.HasPrefix(s.prefix, "/"):
		return nil, &source.FieldError{Field: "prefix", Reason: "a path begins with a slash"}
	}
	if s.maxPages, err = setting.Number("max_pages", v["max_pages"], 1, maxPagesLimit, 1000); err != nil {
		return nil, err
	}
	if s.maxDepth, err = setting.Number("max_depth", v["max_depth"], 0, 20, 5); err != nil {
		return nil, err
	}
	delay, err := setting.Number("delay_ms", v["delay_ms"], 0, int(maxDelay.Milliseconds()), 200)
	if err != nil {
		return nil, err
	}
	s.limiter = rate.NewLimiter(rate.Every(time.Duration(delay)*time.Millisecond), 1)
	g := guard.New(ctx, settings.AllowPrivate)
	if _, err := g.Resolve(ctx, s.start.Hostname()); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &source.FieldError{Field: "url", Reason: err.Error()}
	}
	s.client = &http.Client{Transport: g.Transport(), CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}}
	return s, nil
}

// Close implements source.Connector.
func (s *site) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// List implements source.Connector.
func (s *site) List(ctx context.Context, cursor string) (source.Listing, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	list := s.crawl
	if s.sitemap {
		list = s.sitemaps
	}
	out, err := list(ctx, cursor)
	if err != nil {
		return source.Listing{}, fmt.Errorf("list %s: %w", s.start, err)
	}
	return out, nil
}

// Fetch implements source.Connector.
func (s *site) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	download, err := s.fetch(ctx, item)
	if err != nil {
		return source.Download{}, fmt.Errorf("fetch %s: %w", item.ID, err)
	}
	return download, nil
}

func (s *site) fetch(ctx context.Context, item source.Item) (source.Download, error) {
	u, err := url.Parse(item.ID)
	if err != nil || !s.contains(u) {
		return source.Download{}, &source.ItemError{Reason: "the address isn't one of the site"}
	}
	allowed, err := s.allowed(ctx, u)
	if err != nil {
		return source.Download{}, err
	}
	if !allowed {
		return source.Download{}, &source.ItemError{Reason: "robots.txt disallows it"}
	}
	r, err := s.get(ctx, u, item.Version)
	if err != nil {
		return source.Download{}, err
	}
	if r.StatusCode == http.StatusNotModified && item.Version != "" {
		_ = r.Body.Close()
		return source.Download{NotModified: true, Version: item.Version}, nil
	}
	if err := status(r); err != nil {
		_ = r.Body.Close()
		if errors.Is(err, errForbidden) {
			return source.Download{}, &source.ItemError{Reason: "the site refuses access to the page"}
		}
		return source.Download{}, err
	}
	kind := r.Header.Get("Content-Type")
	if !isSupportedType(kind) {
		_ = r.Body.Close()
		return source.Download{}, &source.ItemError{Reason: "its type is not supported: " + kind}
	}
	download := source.Download{Body: r.Body, MediaType: kind, Version: version(r)}
	if download.Version != "" {
		return download, nil
	}
	// Only the content shows whether it has changed.
	defer r.Body.Close()
	content, err := s.readAll(r.Body)
	if err != nil {
		return source.Download{}, err
	}
	download.Body, download.Version = io.NopCloser(bytes.NewReader(content)), digest(content)
	download.NotModified = download.Version == item.Version
	if download.NotModified {
		download.Body = nil
	}
	return download, nil
}

// readAll reads a body of limited size.
func (s *site) readAll(body io.Reader) ([]byte, error) {
	limit := int64(maxPageBytes)
	if s.maxBytes > 0 {
		limit = min(limit, s.maxBytes)
	}
	content, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, &source.ItemError{Reason: fmt.Sprintf("it is larger than %d bytes, and the site doesn't say when it changed", limit)}
	}
	return content, err
}

// get requests an address, at the allowed rate. With a version, the request is conditional.
func (s *site) get(ctx context.Context, u *url.URL, cachedVersion string) (*http.Response, error) {
	if err := s.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", userAgent)
	if s.user != "" || s.password != "" {
		r.SetBasicAuth(s.user, s.password)
	}
	if tag, ok := strings.CutPrefix(cachedVersion, "etag:"); ok {
		r.Header.Set("If-None-Match", tag)
	} else if date, ok := strings.CutPrefix(cachedVersion, "modified:"); ok {
		r.Header.Set("If-Modified-Since", date)
	}
	response, err := s.client.Do(r)
	if ctx.Err() != nil {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, ctx.Err()
	}
	return response, err
}

// errForbidden is the error of a page that the site refuses. For the start page or the sitemap, it
// acts as source.ErrRefused.
var errForbidden = fmt.Errorf("the server answered 403: %w", source.ErrRefused)

// status converts a status other than 200 to an error.
func status(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusOK:
		return nil
	case r.StatusCode == http.StatusNotFound, r.StatusCode == http.StatusGone:
		return source.ErrGone
	case r.StatusCode == http.StatusUnauthorized:
		return source.ErrRefused
	case r.StatusCode == http.StatusForbidden:
		return errForbidden
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && retry.After(r.Header) > 0:
		return &source.RateLimitError{After: retry.After(r.Header)}
	}
	return fmt.Errorf("the server answered %s", r.Status)
}

// version returns the version from a response's headers: an entity tag, else a time.
func version(r *http.Response) string {
	if tag := r.Header.Get("ETag"); tag != "" {
		return "etag:" + tag
	}
	if date := r.Header.Get("Last-Modified"); date != "" {
		return "modified:" + date
	}
	return ""
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// isSupportedType reports whether a media type has text.
func isSupportedType(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch kind = strings.TrimSpace(kind); {
	case kind == "", strings.HasPrefix(kind, "text/css"), strings.HasPrefix(kind, "text/javascript"):
		return kind == ""
	case strings.HasPrefix(kind, "text/"), strings.HasPrefix(kind, "application/vnd.openxmlformats-officedocument."),
		strings.HasPrefix(kind, "application/vnd.oasis.opendocument."), strings.HasPrefix(kind, "application/vnd.ms-"):
		return true
	}
	switch kind {
	case "application/pdf", "application/xhtml+xml", "application/msword", "application/rtf", "application/epub+zip",
		"application/octet-stream":
		return true
	}
	return false
}

// normalize returns an address in the form in which it identifies an item: without fragment and
// default port, with a lower-case host, and with a path.
func normalize(u *url.URL) *url.URL {
	n := *u
	n.Fragment, n.RawFragment, n.User = "", "", nil
	n.Scheme, n.Host = strings.ToLower(n.Scheme), strings.ToLower(n.Host)
	if port := n.Port(); port == "80" && n.Scheme == "http" || port == "443" && n.Scheme == "https" {
		n.Host = strings.TrimSuffix(n.Host, ":"+port)
	}
	if n.Path == "" {
		n.Path = "/"
	}
	return &n
}

// contains reports whether an address belongs to the site.
func (s *site) contains(u *url.URL) bool {
	return u.Scheme == s.start.Scheme && u.Host == s.start.Host && strings.HasPrefix(u.Path, s.prefix)
}

// itemPath returns the path of an item. A folder's page is index.html; a query is part of the name.
func itemPath(u *url.URL) string {
	name := strings.TrimPrefix(path.Clean(u.Path), "/")
	if strings.HasSuffix(u.Path, "/") {
		name = path.Join(name, "index.html")
	}
	if u.RawQuery != "" {
		name += "?" + u.RawQuery
	}
	return name
}
