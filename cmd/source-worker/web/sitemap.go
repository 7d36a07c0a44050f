package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// maxSitemapBytes and maxSitemapEntries are the limits of sitemaps.org.
	maxSitemapBytes   = 50 << 20
	maxSitemapEntries = 50_000
	// maxURLBytes is the maximum length of an address, which is an item's id.
	maxURLBytes = 1024
)

// sitemapEntry is an entry of a sitemap, or of an index of sitemaps.
type sitemapEntry struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod"`
}

// sitemapPosition is the position of a listing: after the entry After of a sitemap, or at its
// beginning if After is empty.
type sitemapPosition struct {
	Sitemap string `json:"sitemap"`
	After   string `json:"after,omitempty"`
}

// sitemaps lists the pages of the start address's sitemap or, if it is an index, of the sitemaps in
// it.
func (s *site) sitemaps(ctx context.Context, cursor string) (source.Listing, error) {
	var pos sitemapPosition
	if cursor != "" {
		if err := source.ReadCursor(cursor, &pos); err != nil {
			return source.Listing{}, err
		}
	}
	index, entries, err := s.readSitemap(ctx, s.start)
	if err != nil {
		return source.Listing{}, startPageError(err)
	}
	maps := []string{s.start.String()}
	if index {
		maps = nil
		for _, e := range entries {
			maps = append(maps, e.Loc)
		}
	}
	i := 0
	if cursor != "" {
		if i = slices.Index(maps, pos.Sitemap); i < 0 {
			return source.Listing{}, source.ErrCursorExpired
		}
	}
	var out source.Listing
	for ; i < len(maps) && len(out.Items)+len(out.Skipped) < s.pageItems; i++ {
		pos.Sitemap = maps[i]
		if index {
			if entries, err = s.childSitemap(ctx, maps[i]); err != nil {
				return source.Listing{}, fmt.Errorf("sitemap %s: %w", maps[i], err)
			}
		}
		rest := entries
		if pos.After != "" {
			last := slices.IndexFunc(entries, func(e sitemapEntry) bool { return e.Loc == pos.After })
			if last < 0 {
				return source.Listing{}, source.ErrCursorExpired
			}
			rest = entries[last+1:]
		}
		capacity := s.pageItems - len(out.Items) - len(out.Skipped)
		for _, e := range rest[:min(capacity, len(rest))] {
			if err := s.addEntry(ctx, e, &out); err != nil {
				return source.Listing{}, err
			}
			pos.After = e.Loc
		}
		if len(rest) > capacity {
			out.Next, err = source.Cursor(pos)
			return out, err
		}
		pos.After = ""
	}
	if i < len(maps) {
		out.Next, err = source.Cursor(sitemapPosition{Sitemap: maps[i]})
	}
	return out, err
}

// startPageError turns a missing start page into an error of the setting.
func startPageError(err error) error {
	if errors.Is(err, source.ErrGone) {
		return &source.FieldError{Field: "url", Reason: "the site has no such page"}
	}
	return err
}

// childSitemap reads a sitemap of an index, or returns it from memory if it was read last.
func (s *site) childSitemap(ctx context.Context, address string) ([]sitemapEntry, error) {
	if cached, ok := s.lastSitemap[address]; ok {
		return cached, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host != s.start.Host {
		return nil, errors.New("it is not on the site's host")
	}
	index, entries, err := s.readSitemap(ctx, u)
	if err != nil {
		return nil, err
	}
	if index {
		return nil, errors.New("it is a sitemap index in a sitemap index")
	}
	s.lastSitemap = map[string][]sitemapEntry{address: entries}
	return entries, nil
}

// addEntry adds an entry to the listing, as an item or as skipped.
func (s *site) addEntry(ctx context.Context, e sitemapEntry, out *source.Listing) error {
	skip := func(reason string) { out.Skipped = append(out.Skipped, source.Skipped{Path: e.Loc, Reason: reason}) }
	u, err := url.Parse(e.Loc)
	if err != nil {
		skip("it is not a valid address")
		return nil
	}
	u = normalize(u)
	if !s.contains(u) {
		skip("it doesn't belong to the site")
		return nil
	}
	if len(u.String()) > maxURLBytes {
		skip("its address is longer than 1,024 bytes")
		return nil
	}
	allowed, err := s.allowed(ctx, u)
	if err != nil {
		return err
	}
	if !allowed {
		skip("robots.txt disallows it")
		return nil
	}
	out.Items = append(out.Items, source.Item{ID: u.String(), Path: itemPath(u), Size: -1, Modified: lastMod(e.LastMod), URL: u.String()})
	return nil
}

// lastMod parses a W3C date; zero if it is not one. It is not used as a version, because many sites
// give every page the time of the last build.
func lastMod(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return t
		}
	}
	return time.Time{}
}

// readSitemap reads a sitemap or an index of sitemaps, which may be compressed. Duplicate entries
// are dropped.
func (s *site) readSitemap(ctx context.Context, u *url.URL) (index bool, entries []sitemapEntry, err error) {
	r, err := s.get(ctx, u, "")
	if err != nil {
		return false, nil, err
	}
	defer r.Body.Close()
	if err := status(r); err != nil {
		return false, nil, err
	}
	body := bufio.NewReader(r.Body)
	var decoded io.Reader = body
	if magic, err := body.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if decoded, err = gzip.NewReader(body); err != nil {
			return false, nil, err
		}
	}
	index, entries, err = parseSitemap(io.LimitReader(decoded, maxSitemapBytes))
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return index, entries, err
}

func parseSitemap(r io.Reader) (index bool, entries []sitemapEntry, err error) {
	decoder := xml.NewDecoder(r)
	root, seen := "", map[string]bool{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && root != "" {
			return index, entries, nil
		}
		if err != nil {
			return false, nil, fmt.Errorf("read a sitemap: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch name := start.Name.Local; {
		case root == "" && (name == "urlset" || name == "sitemapindex"):
			root, index = name, name == "sitemapindex"
		case root == "":
			return false, nil, &source.FieldError{Field: "url", Reason: "it is not a sitemap: its first element is " + name}
		case name == "url" || name == "sitemap":
			var e sitemapEntry
			if err := decoder.DecodeElement(&e, &start); err != nil {
				return false, nil, fmt.Errorf("read a sitemap: %w", err)
			}
			if e.Loc = strings.TrimSpace(e.Loc); e.Loc != "" && !seen[e.Loc] {
				seen[e.Loc] = true
				entries = append(entries, e)
			}
			if len(entries) > maxSitemapEntries {
				return false, nil, fmt.Errorf("a sitemap has more than %d entries", maxSitemapEntries)
			}
		}
	}
}
