package web

// A crawl reads pages in the order of their distance from the start page, a fixed number for each
// page of the listing. The cursor has the addresses that wait and those that were seen, compressed:
// at most 10,000 pages, and a megabyte of waiting addresses.

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	maxPagesLimit = 10_000
	// maxQueueBytes is the maximum size of all waiting addresses.
	maxQueueBytes = 1 << 20
	// maxCursorBytes is the maximum size of an unpacked cursor.
	maxCursorBytes = 4 << 20
)

// frontier is the state of a crawl.
type frontier struct {
	Queue []queuedPage `json:"waiting"`
	// Seen are 8-byte hashes of addresses.
	Seen []byte `json:"seen"`
	// Full is whether addresses were left out because there were too many, or because they were too
	// long.
	Full bool `json:"full,omitempty"`

	seen  map[uint64]bool
	bytes int
}

type queuedPage struct {
	URL   string `json:"u"`
	Depth int    `json:"d"`
}

// crawl reads the next pages, and lists them.
func (s *site) crawl(ctx context.Context, cursor string) (source.Listing, error) {
	f := &frontier{seen: map[uint64]bool{}}
	if cursor == "" {
		f.add(s.start, 0, s.maxPages)
	} else if err := f.decode(cursor); err != nil {
		return source.Listing{}, err
	}
	var out source.Listing
	for read := 0; read < s.crawlPages && len(f.Queue) > 0; read++ {
		next := f.Queue[0]
		f.Queue = f.Queue[1:]
		f.bytes -= len(next.URL)
		if err := s.visit(ctx, next, f, &out); err != nil {
			return source.Listing{}, fmt.Errorf("%s: %w", next.URL, err)
		}
	}
	if len(f.Queue) == 0 {
		if f.Full {
			out.Skipped = append(out.Skipped, source.Skipped{Path: s.prefix, Reason: fmt.Sprintf("the site has more than %d pages, or addresses that are too long", s.maxPages)})
		}
		return out, nil
	}
	next, err := f.encode()
	out.Next = next
	return out, err
}

// visit reads a page, adds it to the listing, and adds its links to the frontier.
func (s *site) visit(ctx context.Context, page queuedPage, f *frontier, out *source.Listing) error {
	address, err := url.Parse(page.URL)
	if err != nil {
		return err
	}
	allowed, err := s.allowed(ctx, address)
	if err != nil {
		return err
	}
	if !allowed {
		out.Skipped = append(out.Skipped, source.Skipped{Path: page.URL, Reason: "robots.txt disallows it"})
		return nil
	}
	r, err := s.get(ctx, address, "")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var limit *source.RateLimitError
	switch err := status(r); {
	case err == nil:
	case page.Depth == 0:
		return startPageError(err)
	case errors.As(err, &limit), r.StatusCode == http.StatusUnauthorized:
		return err
	case errors.Is(err, source.ErrGone):
		return nil // a broken link
	case errors.Is(err, errForbidden):
		out.Skipped = append(out.Skipped, source.Skipped{Path: page.URL, Reason: "the site refuses access to the page"})
		return nil
	default:
		// The page exists but fails. List it, so that fetching reports the error and its last
		// content stays.
		out.Items = append(out.Items, item(address, ""))
		return nil
	}
	final := normalize(r.Request.URL) // after redirects
	if !s.contains(final) || final.String() != page.URL && !f.markSeen(final) {
		return nil
	}
	kind := r.Header.Get("Content-Type")
	if !isSupportedType(kind) {
		return nil
	}
	if !strings.Contains(kind, "html") {
		out.Items = append(out.Items, item(final, version(r)))
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(r.Body, maxPageBytes))
	if err != nil {
		return err
	}
	links, canonical, err := links(content, kind, final)
	if err != nil {
		return err
	}
	if page.Depth < s.maxDepth {
		for _, link := range links {
			if s.contains(link) {
				f.add(link, page.Depth+1, s.maxPages)
			}
		}
	}
	if canonical != nil && s.contains(canonical) && canonical.String() != final.String() {
		f.add(canonical, page.Depth, s.maxPages) // the same page under its canonical address
		return nil
	}
	pageVersion := version(r)
	if pageVersion == "" {
		pageVersion = digest(content)
	}
	out.Items = append(out.Items, item(final, pageVersion))
	return nil
}

func item(u *url.URL, version string) source.Item {
	return source.Item{ID: u.String(), Path: itemPath(u), Version: version, Size: -1, URL: u.String()}
}

// links returns the links of a page, and its canonical address if it names one.
func links(content []byte, kind string, u *url.URL) (out []*url.URL, canonical *url.URL, err error) {
	decoded, err := charset.NewReader(bytes.NewReader(content), kind)
	if err != nil {
		return nil, nil, err
	}
	base := u
	for z := html.NewTokenizer(decoded); ; {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return out, canonical, nil
			}
			return nil, nil, z.Err()
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			attribute := map[string]string{}
			for _, a := range tag.Attr {
				attribute[a.Key] = a.Val
			}
			target, err := base.Parse(strings.TrimSpace(attribute["href"]))
			if attribute["href"] == "" || err != nil {
				continue
			}
			rel := " " + strings.ToLower(attribute["rel"]) + " "
			switch {
			case tag.Data == "base":
				base = target
			case tag.Data == "link" && strings.Contains(rel, " canonical "):
				canonical = normalize(target)
			case (tag.Data == "a" || tag.Data == "area") && !strings.Contains(rel, " nofollow "):
				out = append(out, normalize(target))
			}
		}
	}
}

// markSeen reports whether an address is new, and marks it as seen.
func (f *frontier) markSeen(u *url.URL) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(u.String()))
	if f.seen[h.Sum64()] {
		return false
	}
	f.seen[h.Sum64()] = true
	return true
}

// add adds an address to the frontier, unless it was seen, it is too long or there are too many.
func (f *frontier) add(u *url.URL, depth, maxPages int) {
	address := u.String()
	if len(f.seen) >= maxPages || len(address) > maxURLBytes || f.bytes+len(address) > maxQueueBytes {
		f.Full = true
		return
	}
	if f.markSeen(u) {
		f.Queue = append(f.Queue, queuedPage{URL: address, Depth: depth})
		f.bytes += len(address)
	}
}

// encode encodes the state as a cursor.
func (f *frontier) encode() (string, error) {
	for h := range f.seen {
		f.Seen = binary.BigEndian.AppendUint64(f.Seen, h)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

// decode decodes a cursor.
func (f *frontier) decode(cursor string) error {
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(cursor)))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxCursorBytes)).Decode(f)
	}
	if err != nil || len(f.Seen)%8 != 0 {
		return fmt.Errorf("read the cursor of a crawl: %w", source.ErrCursorExpired)
	}
	for i := 0; i < len(f.Seen); i += 8 {
		f.seen[binary.BigEndian.Uint64(f.Seen[i:])] = true
	}
	for _, w := range f.Queue {
		f.bytes += len(w.URL)
	}
	f.Seen = nil
	return nil
}
