package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

// server is a site whose pages a test can change.
type server struct {
	mu      sync.Mutex
	pages   map[string]string
	headers map[string]http.Header
	asked   []string
	sign    bool // signing in is required
	perMap  int  // pages in a sitemap
	*httptest.Server
}

func newServer(t testing.TB) *server {
	s := &server{pages: map[string]string{}, headers: map[string]http.Header{}, perMap: 3}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.Path)
	if user, password, _ := r.BasicAuth(); s.sign && r.URL.Path != "/robots.txt" && user+":"+password != "reader:secret" {
		http.Error(w, "sign in", http.StatusUnauthorized)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/sitemap"); ok {
		s.serveSitemap(w, strings.TrimSuffix(name, ".xml"), "http://"+r.Host)
		return
	}
	content, ok := s.pages[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	for name, values := range s.headers[r.URL.Path] {
		w.Header()[name] = values
	}
	if to := w.Header().Get("Location"); to != "" {
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	http.ServeContent(w, r, r.URL.Path, time.Time{}, strings.NewReader(content))
}

func (s *server) serveSitemap(w http.ResponseWriter, number, base string) {
	names := slices.Sorted(maps.Keys(s.pages))
	if number == "" {
		fmt.Fprint(w, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for i := 0; i < len(names); i += s.perMap {
			fmt.Fprintf(w, `<sitemap><loc>%s/sitemap%d.xml</loc></sitemap>`, base, i)
		}
		fmt.Fprint(w, `</sitemapindex>`)
		return
	}
	var from int
	_, _ = fmt.Sscan(number, &from)
	fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, name := range names[min(from, len(names)):min(from+s.perMap, len(names))] {
		at := url.URL{Path: name}
		fmt.Fprintf(w, `<url><loc>%s%s</loc><lastmod>2025-01-02</lastmod></url>`, base, at.EscapedPath())
	}
	fmt.Fprint(w, `</urlset>`)
}

// put sets the content of a page, with an entity tag if tagged is set.
func (s *server) put(path, kind, content string, tagged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = content
	s.headers[path] = http.Header{"Content-Type": {kind}}
	if tagged {
		s.headers[path].Set("ETag", fmt.Sprintf(`"%s"`, digest([]byte(content))))
	}
}

func TestSitemap(t *testing.T) {
	for _, tagged := range []bool{true, false} {
		t.Run(fmt.Sprintf("EntityTags=%v", tagged), func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
				site := newServer(t)
				site.sign = true
				faults := sourcetest.NewFaults(t, site.URL)
				isMap := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/sitemap") }
				return sourcetest.Fixture{
					Driver: driver(4, 4), Faults: faults, Listing: isMap,
					Content: func(r *http.Request) bool { return !isMap(r) && r.URL.Path != "/robots.txt" },
					Settings: source.Settings{AllowPrivate: true, Values: map[string]string{"url": faults.URL() + "/sitemap.xml",
						"user": "reader", "password": "secret", "delay_ms": "0"}},
					WrongCredentials: func(v map[string]string) { v["password"] = "wrong" },
					Put: func(_ testing.TB, path string, content []byte) {
						site.put("/"+path, "text/plain; charset=utf-8", string(content), tagged)
					},
					Remove: func(_ testing.TB, path string) {
						site.mu.Lock()
						defer site.mu.Unlock()
						delete(site.pages, "/"+path)
					},
				}
			})
		})
	}
}

// listed opens a site and returns its whole listing.
func listed(t *testing.T, values map[string]string) (source.Connector, []source.Item, []source.Skipped) {
	t.Helper()
	values["delay_ms"] = "0"
	c, err := driver(2, 2).Open(t.Context(), source.Settings{AllowPrivate: true, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var items []source.Item
	var skipped []source.Skipped
	for cursor := ""; ; {
		page, err := c.List(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		items, skipped = append(items, page.Items...), append(skipped, page.Skipped...)
		if cursor = page.Next; cursor == "" {
			return c, items, skipped
		}
	}
}

func paths(items []source.Item) (out []string) {
	for _, item := range items {
		out = append(out, item.Path)
	}
	slices.Sort(out)
	return out
}

const page = "text/html; charset=utf-8"

func TestCrawlFollowsLinksOfTheSite(t *testing.T) {
	site := newServer(t)
	site.put("/docs/", page, `<a href="a.html">a</a> <a href="/docs/b.html#part">b</a> <a href="https://elsewhere.example/">x</a>
		<a href="/private/">above</a> <a href="no.html" rel="nofollow">no</a> <a href="gone.html">gone</a> <a href="old.html">moved</a>
		<a href="secret/x.html">secret</a> <a href="picture.png">picture</a>`, true)
	site.put("/docs/a.html", page, `<a href="deep.html?x=1">deeper</a><a href="./">back</a>`, true)
	site.put("/docs/b.html", page, `<link rel="canonical" href="/docs/a.html">`, true)
	site.put("/docs/deep.html", page, `<a href="deepest.html">deepest</a>`, true)
	site.put("/docs/deepest.html", page, `end`, true)
	site.put("/docs/new.html", page, `moved here`, true)
	site.put("/docs/old.html", page, ``, false)
	site.headers["/docs/old.html"].Set("Location", "/docs/new.html")
	site.put("/docs/secret/x.html", page, `secret`, true)
	site.put("/docs/picture.png", "image/png", `picture`, true)
	site.put("/private/", page, `not of the folder`, true)
	site.put("/robots.txt", "text/plain", "User-agent: *\nDisallow: /docs/secret/\n", false)

	_, items, skipped := listed(t, map[string]string{"url": site.URL + "/docs/", "max_depth": "2"})
	if got, want := paths(items), []string{"docs/a.html", "docs/deep.html?x=1", "docs/index.html", "docs/new.html"}; !slices.Equal(got, want) {
		t.Errorf("the crawl finds %q, want %q", got, want)
	}
	if len(skipped) != 1 || !strings.HasSuffix(skipped[0].Path, "/docs/secret/x.html") {
		t.Errorf("skipped are %+v, want the page that robots.txt forbids", skipped)
	}
	if slices.Contains(site.asked, "/docs/secret/x.html") || slices.Contains(site.asked, "/private/") {
		t.Errorf("the crawl asked for %q", site.asked)
	}
}

func TestCrawlEndsAtItsLimit(t *testing.T) {
	site := newServer(t)
	for i := range 30 {
		site.put(fmt.Sprintf("/%d", i), page, fmt.Sprintf(`<a href="/%d">next</a>`, i+1), false)
	}
	_, items, skipped := listed(t, map[string]string{"url": site.URL + "/0", "max_depth": "20", "max_pages": "7"})
	if len(items) != 7 || len(skipped) != 1 {
		t.Errorf("a crawl of 7 pages at most finds %d, and says %+v", len(items), skipped)
	}
}

func TestUnchangedPagesAreNotSent(t *testing.T) {
	for _, tagged := range []bool{true, false} {
		site := newServer(t)
		site.put("/", page, "hello", tagged)
		c, items, _ := listed(t, map[string]string{"url": site.URL})
		down, err := c.Fetch(t.Context(), items[0])
		if err != nil || !down.NotModified || down.Body != nil {
			t.Errorf("an unchanged page (entity tags: %v) gives %+v, %v", tagged, down, err)
		}
		site.put("/", page, "hello again", tagged)
		if down, err = c.Fetch(t.Context(), items[0]); err != nil || down.NotModified {
			t.Fatalf("a changed page (entity tags: %v) gives %+v, %v", tagged, down, err)
		}
		_ = down.Body.Close()
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	if _, err := Driver().Open(t.Context(), source.Settings{Values: map[string]string{"url": "http://169.254.169.254/latest"}}); err == nil {
		t.Error("a link-local address is opened")
	}
}
