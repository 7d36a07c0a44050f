package apiclient

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestRequestsAreRepeatedWithOneIdempotencyKey(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("Idempotency-Key")]++
		if len(keys) != 1 || !strings.Contains(string(body), "c1") || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("request %s with keys %v", body, keys)
		}
		switch keys[r.Header.Get("Idempotency-Key")] {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 2: // the first try is still running
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	defer server.Close()
	c, err := New(server.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := post[struct{}](t.Context(), c, "/v1/collections", map[string]string{"name": "c1"}); err != nil {
		t.Fatal(err)
	}
}

func TestProblemsAreErrorsAndNotRepeated(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"title":"Unprocessable Entity","status":422,"detail":"validation failed","errors":[{"message":"is odd","location":"body.k"}]}`)
	}))
	defer server.Close()
	c, err := New(server.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.WhoAmI(t.Context())
	if !IsStatus(err, http.StatusUnprocessableEntity) || err.Error() != "validation failed; body.k: is odd" || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestACrowdIsWaitedForAndAQuotaIsNot: both are 429, but only an overload says when to retry.
func TestACrowdIsWaitedForAndAQuotaIsNot(t *testing.T) {
	for _, retryAfter := range []string{"", "0"} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls == 1 {
				if retryAfter != "" {
					w.Header().Set("Retry-After", retryAfter)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		}))
		c, err := New(server.URL, "k")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WhoAmI(t.Context())
		server.Close()
		if again := retryAfter != ""; again != (err == nil) || again != (calls == 2) || !again && !IsStatus(err, http.StatusTooManyRequests) {
			t.Errorf("Retry-After %q: %d calls, %v", retryAfter, calls, err)
		}
	}
}

func TestFindNeverSendsAKeyElsewhere(t *testing.T) {
	data := t.TempDir()
	if _, err := Find("", "", "", data); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("nothing known gave %v", err)
	}
	if err := WriteCredentials(Credentials{URL: "http://127.0.0.1:1", APIKey: "secret", Data: data}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(data, credentialsFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credentials have mode %v, %v", info.Mode(), err)
	}
	if c, err := Find("", "", "", data); err != nil || c.key != "secret" || c.base != "http://127.0.0.1:1" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Find("", "http://elsewhere.example", "", data); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("the kept key was sent elsewhere: %v", err)
	}
	if c, err := Find("", "http://elsewhere.example", "own", data); err != nil || c.key != "own" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := New("ftp://x", ""); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a bad address gave %v", err)
	}
}
