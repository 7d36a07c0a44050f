package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/temoto/robotstxt"
	"golang.org/x/time/rate"
)

// allowed reports whether robots.txt allows us to read a page. If the site has none, everything may
// be read; if the server fails, nothing may (RFC 9309, 2.3.1).
func (s *site) allowed(ctx context.Context, u *url.URL) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.robots == nil {
		group, err := s.fetchRobots(ctx)
		if err != nil {
			return false, fmt.Errorf("robots.txt: %w", err)
		}
		s.robots = group
		if wait := min(group.CrawlDelay, maxDelay); wait > 0 && rate.Every(wait) < s.limiter.Limit() {
			s.limiter.SetLimit(rate.Every(wait))
		}
	}
	return s.robots.Test(u.RequestURI()), nil
}

func (s *site) fetchRobots(ctx context.Context) (*robotstxt.Group, error) {
	r, err := s.get(ctx, &url.URL{Scheme: s.start.Scheme, Host: s.start.Host, Path: "/robots.txt"}, "")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var rules []byte
	switch {
	case r.StatusCode == http.StatusOK:
		if rules, err = io.ReadAll(io.LimitReader(r.Body, maxRobotsBytes)); err != nil {
			return nil, err
		}
	case r.StatusCode >= 500, r.StatusCode == http.StatusTooManyRequests:
		return nil, status(r)
	}
	parsed, err := robotstxt.FromBytes(rules)
	if err != nil {
		// A robots.txt that cannot be parsed forbids nothing.
		if parsed, err = robotstxt.FromString(""); err != nil {
			return nil, err
		}
	}
	return parsed.FindGroup(agent), nil
}
