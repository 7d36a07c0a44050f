//go:build volume

package rclonefs

// make sources-volume follows 20,000 files, or VOLUME_FILES, on a real WebDAV server and a real S3
// server, and counts the requests.

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// atOnce is how many items are fetched at once, as the worker does.
const atOnce = 8

// volume returns the number of files: VOLUME_FILES, a multiple of 2,000.
func volume(t *testing.T) int {
	t.Helper()
	asked := os.Getenv("VOLUME_FILES")
	if asked == "" {
		return 20_000
	}
	n, err := strconv.Atoi(asked)
	if err != nil || n <= 0 || n%2000 != 0 {
		t.Fatalf("VOLUME_FILES is %q; a multiple of 2000 is needed", asked)
	}
	return n
}

// kept has the known version of each item, as the synchronisation stores it.
type kept map[string]string

// counts are the counts of one run.
type counts struct{ seen, fetched, deleted int }

// follow lists a source and fetches new items. After an error, no item counts as deleted.
func (k kept) follow(t *testing.T, c source.Connector) (counts, error) {
	var n counts
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, err := c.List(t.Context(), cursor)
		if err != nil {
			return n, err
		}
		if len(page.Skipped) > 0 {
			t.Fatalf("skipped are %+v", page.Skipped)
		}
		n.seen += len(page.Items)
		fetched, err := k.fetch(t, c, page.Items, seen)
		n.fetched += fetched
		if err != nil {
			return n, err
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for id := range k {
		if !seen[id] {
			delete(k, id)
			n.deleted++
		}
	}
	return n, nil
}

// fetch fetches the items of a page that are new or have changed.
func (k kept) fetch(t *testing.T, c source.Connector, items []source.Item, seen map[string]bool) (fetched int, first error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, item := range items {
		seen[item.ID] = true
		mu.Lock()
		known, failed := k[item.ID] == item.Version, first != nil
		mu.Unlock()
		if failed {
			break // the synchronisation stops, too
		}
		if known {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			down, err := c.Fetch(t.Context(), item)
			if err == nil {
				_, err = io.Copy(io.Discard, down.Body)
				_ = down.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				first = errors.Join(first, err)
				return
			}
			fetched++
			k[item.ID] = item.Version
		})
	}
	all.Wait()
	return fetched, first
}

func volumeFile(i int) string {
	return fmt.Sprintf("year-%02d/part-%02d/%05d.txt", i/2000, i/100%20, i)
}

func TestVolume(t *testing.T) {
	files := volume(t)
	changed, gone := files/100, files/40
	for name, make := range map[string]func(t *testing.T) sourcetest.Fixture{
		"WebDAV": func(t *testing.T) sourcetest.Fixture { return webdavFixture(t) },
		"S3":     func(t *testing.T) sourcetest.Fixture { return s3Fixture(t, localtest.NewS3(t), "volume") },
	} {
		t.Run(name, func(t *testing.T) {
			p := make(t)
			p.Driver = map[string]*kind{"WebDAV": webdav, "S3": s3}[name].driver()
			for i := range files {
				p.Put(t, volumeFile(i), fmt.Appendf(nil, "Document %d.\n", i))
			}
			c, err := p.Driver.Open(waittest.Context(t), p.Settings)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			k := kept{}
			run := func(what string, want counts, fails func(error) bool) {
				t.Helper()
				before, began := p.Faults.Requests(), time.Now()
				got, err := k.follow(t, c)
				t.Logf("%s, %s: %+v in %.1f s, %d requests; %v", name, what, got, time.Since(began).Seconds(), p.Faults.Requests()-before, err)
				switch {
				case fails == nil && (err != nil || got != want):
					t.Errorf("%s: %+v, want %+v (%v)", what, got, want, err)
				case fails != nil && (!fails(err) || got.deleted != 0):
					t.Errorf("%s: %+v, %v", what, got, err)
				}
			}
			// The server becomes unavailable during the first run. Items that were fetched before
			// are not fetched again.
			p.Faults.Set(&sourcetest.Fault{Status: http.StatusServiceUnavailable, After: files / 2})
			run("server gone in the middle", counts{}, func(err error) bool {
				return err != nil && !errors.Is(err, source.ErrRefused) && !errors.Is(err, source.ErrGone)
			})
			p.Faults.Set(nil)
			had := len(k)
			run("first run to its end", counts{seen: files, fetched: files - had}, nil)
			clear(k)
			run("all anew", counts{seen: files, fetched: files}, nil)
			run("nothing changed", counts{seen: files}, nil)
			for i := range changed {
				p.Put(t, volumeFile(i*100), fmt.Appendf(nil, "Document %d, changed.\n", i))
			}
			run("1 % changed", counts{seen: files, fetched: changed}, nil)
			for i := range gone {
				p.Remove(t, volumeFile(i*40+1))
			}
			run("2.5 % gone", counts{seen: files - gone, deleted: gone}, nil)
			p.Faults.Set(&sourcetest.Fault{Status: http.StatusUnauthorized, After: 3})
			run("credentials expired", counts{}, func(err error) bool { return errors.Is(err, source.ErrRefused) })
			p.Faults.Set(nil)
			run("credentials renewed", counts{seen: files - gone}, nil)
		})
	}
}
