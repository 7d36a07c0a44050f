package source_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
)

// addresses is a driver for the files of a web server whose paths are listed, one per line, in a
// text file on that server.
func addresses() source.Driver {
	return source.Driver{
		Name: "addresses", Summary: "Files of a web server that a text file there lists, one path a line.",
		Fields: []source.Field{
			{Name: "url", Summary: "The server, as https://files.example.com.", Required: true},
			{Name: "token", Summary: "A token that it asks for.", Secret: true},
		},
		Open: func(_ context.Context, s source.Settings) (source.Connector, error) {
			if !strings.HasPrefix(s.Values["url"], "http") {
				return nil, &source.FieldError{Field: "url", Reason: "is no address of a web server"}
			}
			return connector{strings.TrimRight(s.Values["url"], "/"), s.Values["token"]}, nil
		},
	}
}

type connector struct{ url, token string }

// get sends a request, and converts the server's refusals to errors of package source.
func (c connector) get(ctx context.Context, path, version string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/"+path, nil)
	if err != nil {
		return nil, &source.ItemError{Reason: err.Error()}
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("If-None-Match", version)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err // the source failed; it is tried again
	}
	if reply.StatusCode == http.StatusOK || reply.StatusCode == http.StatusNotModified {
		return reply, nil
	}
	_ = reply.Body.Close()
	switch reply.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, source.ErrRefused
	case http.StatusNotFound:
		return nil, source.ErrGone
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(reply.Header.Get("Retry-After"))
		return nil, &source.RateLimitError{After: time.Duration(seconds) * time.Second}
	}
	return nil, fmt.Errorf("the server answers %s", reply.Status)
}

// List returns one page: the file lists all items.
func (c connector) List(ctx context.Context, _ string) (source.Listing, error) {
	reply, err := c.get(ctx, "files.txt", "")
	if err != nil {
		return source.Listing{}, fmt.Errorf("get the list of files: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	var out source.Listing
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		if path := strings.TrimSpace(lines.Text()); path != "" {
			out.Items = append(out.Items, source.Item{ID: path, Path: path, Size: -1, URL: c.url + "/" + path})
		}
	}
	return out, lines.Err() // items that were not read must not look deleted
}

// Fetch asks for content newer than the item's version, because the list has no versions.
func (c connector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	reply, err := c.get(ctx, item.ID, item.Version)
	if err != nil {
		return source.Download{}, err
	}
	if reply.StatusCode == http.StatusNotModified {
		return source.Download{NotModified: true}, reply.Body.Close()
	}
	return source.Download{Body: reply.Body, MediaType: reply.Header.Get("Content-Type"), Version: reply.Header.Get("ETag")}, nil
}

func (connector) Close() error { return nil }

// A driver, from its settings to the content of an item.
func ExampleDriver() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, map[string]string{"/files.txt": "a.md\nb/c.md\n", "/a.md": "# A"}[r.URL.Path])
	}))
	defer server.Close()
	err := func() error {
		c, err := addresses().Open(context.Background(), source.Settings{Values: map[string]string{"url": server.URL}})
		if err != nil {
			return err
		}
		listing, err := c.List(context.Background(), "")
		if err != nil {
			return err
		}
		for _, item := range listing.Items {
			fmt.Println(item.Path)
		}
		d, err := c.Fetch(context.Background(), listing.Items[0])
		if err != nil {
			return err
		}
		text, err := io.ReadAll(d.Body)
		fmt.Printf("%s %s\n", d.Version, text)
		return errors.Join(err, d.Body.Close(), c.Close())
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// a.md
	// b/c.md
	// "1" # A
}
