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
	// sitemapBytes and sitemapEntries are the limits of sitemaps.org.
	sitemapBytes   = 50 << 20
	sitemapEntries = 50_000
	// addressBytes is the maximum length of an address, which is an item's id.
	addressBytes = 1024
)

// location is an entry of a sitemap, or of an index of sitemaps.
type location struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod"`
}

// place is the position of a listing: after the entry After of a sitemap, or at its beginning if
// After is empty.
type place struct {
	Sitemap string `json:"sitemap"`
	After   string `json:"after,omitempty"`
}

// sitemaps lists the pages of the start address's sitemap or, if it is an index, of the sitemaps in
// it.
func (s *site) sitemaps(ctx context.Context, cursor string) (source.Listing, error) {
	var at place
	if cursor != "" {
		if err := source.ReadCursor(cursor, &at); err != nil {
			return source.Listing{}, err
		}
	}
	index, entries, err := s.readSitemap(ctx, s.start)
	if err != nil {
		return source.Listing{}, refusal(err)
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
		if i = slices.Index(maps, at.Sitemap); i < 0 {
			return source.Listing{}, source.ErrCursorExpired
		}
	}
	var out source.Listing
	for ; i < len(maps) && len(out.Items)+len(out.Skipped) < s.pageItems; i++ {
		at.Sitemap = maps[i]
		if index {
			if entries, err = s.child(ctx, maps[i]); err != nil {
				return source.Listing{}, fmt.Errorf("sitemap %s: %w", maps[i], err)
			}
		}
		rest := entries
		if at.After != "" {
			behind := slices.IndexFunc(entries, func(e location) bool { return e.Loc == at.After })
			if behind < 0 {
				return source.Listing{}, source.ErrCursorExpired
			}
			rest = entries[behind+1:]
		}
		room := s.pageItems - len(out.Items) - len(out.Skipped)
		for _, e := range rest[:min(room, len(rest))] {
			if err := s.entry(ctx, e, &out); err != nil {
				return source.Listing{}, err
			}
			at.After = e.Loc
		}
		if len(rest) > room {
			out.Next, err = source.Cursor(at)
			return out, err
		}
		at.After = ""
	}
	if i < len(maps) {
		out.Next, err = source.Cursor(place{Sitemap: maps[i]})
	}
	return out, err
}

// refusal turns a missing start page into an error of the setting.
func refusal(err error) error {
	if errors.Is(err, source.ErrGone) {
		return &source.FieldError{Field: "url", Reason: "the site has no such page"}
	}
	return err
}

// child reads a sitemap of an index, or returns it from memory if it was read last.
func (s *site) child(ctx context.Context, address string) ([]location, error) {
	if known, ok := s.read[address]; ok {
		return known, nil
	}
	at, err := url.Parse(address)
	if err != nil || at.Host != s.start.Host {
		return nil, errors.New("it is not on the site's host")
	}
	index, entries, err := s.readSitemap(ctx, at)
	if err != nil {
		return nil, err
	}
	if index {
		return nil, errors.New("it is a sitemap index in a sitemap index")
	}
	s.read = map[string][]location{address: entries}
	return entries, nil
}

// entry adds an entry to the listing, as an item or as skipped.
func (s *site) entry(ctx context.Context, e location, out *source.Listing) error {
	skip := func(reason string) { out.Skipped = append(out.Skipped, source.Skipped{Path: e.Loc, Reason: reason}) }
	at, err := url.Parse(e.Loc)
	if err != nil {
		skip("it is not a valid address")
		return nil
	}
	at = normal(at)
	if !s.within(at) {
		skip("it doesn't belong to the site")
		return nil
	}
	if len(at.String()) > addressBytes {
		skip("its address is longer than 1,024 bytes")
		return nil
	}
	allowed, err := s.allowed(ctx, at)
	if err != nil {
		return err
	}
	if !allowed {
		skip("robots.txt disallows it")
		return nil
	}
	out.Items = append(out.Items, source.Item{ID: at.String(), Path: file(at), Size: -1, Modified: lastMod(e.LastMod), URL: at.String()})
	return nil
}

// lastMod parses a W3C date; zero if it is not one. It is not used as a version, because many sites
// give every page the time of the last build.
func lastMod(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if at, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return at
		}
	}
	return time.Time{}
}

// readSitemap reads a sitemap or an index of sitemaps, which may be compressed. Duplicate entries
// are dropped.
func (s *site) readSitemap(ctx context.Context, at *url.URL) (index bool, entries []location, err error) {
	r, err := s.get(ctx, at, "")
	if err != nil {
		return false, nil, err
	}
	defer r.Body.Close()
	if err := status(r); err != nil {
		return false, nil, err
	}
	body := bufio.NewReader(r.Body)
	var plain io.Reader = body
	if magic, err := body.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if plain, err = gzip.NewReader(body); err != nil {
			return false, nil, err
		}
	}
	index, entries, err = parseSitemap(io.LimitReader(plain, sitemapBytes))
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return index, entries, err
}

func parseSitemap(r io.Reader) (index bool, entries []location, err error) {
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
			var e location
			if err := decoder.DecodeElement(&e, &start); err != nil {
				return false, nil, fmt.Errorf("read a sitemap: %w", err)
			}
			if e.Loc = strings.TrimSpace(e.Loc); e.Loc != "" && !seen[e.Loc] {
				seen[e.Loc] = true
				entries = append(entries, e)
			}
			if len(entries) > sitemapEntries {
				return false, nil, fmt.Errorf("a sitemap has more than %d entries", sitemapEntries)
			}
		}
	}
}
