package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// retryAfterSeconds is the number of seconds for which the source asks callers to wait.
const retryAfterSeconds = 7

func stopsWithItsContext(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("A text.\n"))
	c := p.open(t)
	item := p.byName(t, list(t, c, ""))["a.txt"]
	cancelled, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if err := p.listFirst(cancelled, c); !errors.Is(err, context.Canceled) {
		t.Errorf("listing with a context that ended gives %v", err)
	}
	if _, _, err := p.fetch(cancelled, c, item); !errors.Is(err, context.Canceled) {
		t.Errorf("fetching with a context that ended gives %v", err)
	}
	faults := p.faults()
	if faults == nil {
		return
	}
	for what, call := range map[string]func(context.Context) error{
		"listing":  func(ctx context.Context) error { return p.listFirst(ctx, c) },
		"fetching": func(ctx context.Context) error { _, _, err := p.fetch(ctx, c, item); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		faults.Set(&Fault{Block: true, Match: p.matching(what)})
		go func() { done <- call(ctx) }()
		waittest.Receive(t, faults.Blocked(), what+" to wait for the server")
		cancel()
		if err := waittest.Receive(t, done, what+" to end with its context"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, whose context ended while the server was silent, gives %v", what, err)
		}
		faults.Set(nil)
	}
}

// matching returns the matcher for the requests of a call.
func (p Fixture) matching(what string) func(*http.Request) bool {
	if what == "listing" {
		return p.Listing
	}
	return p.Content
}

func checksSettings(t *testing.T, p Fixture) {
	var field *source.FieldError
	values := maps.Clone(p.Settings.Values)
	values["no_such_setting"] = "1"
	if err := p.attempt(t, values); !errors.As(err, &field) || field.Field != "no_such_setting" {
		t.Errorf("an unknown setting gives %v", err)
	}
	for _, f := range p.Driver.Fields {
		if !f.Required {
			continue
		}
		values := maps.Clone(p.Settings.Values)
		delete(values, f.Name)
		if err := p.attempt(t, values); !errors.As(err, &field) || field.Field != f.Name {
			t.Errorf("without %s opening gives %v", f.Name, err)
		}
	}
}

// attempt opens the source with other values and, if that succeeds, lists it.
func (p Fixture) attempt(t testing.TB, values map[string]string) error {
	t.Helper()
	settings := p.Settings
	settings.Values = values
	c, err := p.Driver.Open(t.Context(), settings)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.List(t.Context(), "")
	return err
}

func refusesPrivateAddresses(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("A text.\n"))
	p.Settings.AllowPrivate = false
	if err := p.attempt(t, p.Settings.Values); err == nil {
		t.Error("a server on the loopback interface is read, though private addresses are not allowed")
	}
	if p.Faults != nil && p.Faults.Requests() > 0 {
		t.Errorf("the server got %d requests", p.Faults.Requests())
	}
}

func reportsRefusedCredentials(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("A text.\n"))
	if p.WrongCredentials != nil {
		values := maps.Clone(p.Settings.Values)
		p.WrongCredentials(values)
		if err := p.attempt(t, values); !errors.Is(err, source.ErrRefused) {
			t.Errorf("wrong credentials give %v, want ErrRefused", err)
		}
	}
	if p.Faults == nil {
		return
	}
	c := p.open(t)
	item := p.byName(t, list(t, c, ""))["a.txt"]
	p.Faults.Set(&Fault{Status: http.StatusUnauthorized})
	if _, err := c.List(t.Context(), ""); !errors.Is(err, source.ErrRefused) {
		t.Errorf("listing with credentials that expired gives %v, want ErrRefused", err)
	}
	if _, _, err := p.fetch(t.Context(), c, item); !errors.Is(err, source.ErrRefused) {
		t.Errorf("fetching with credentials that expired gives %v, want ErrRefused", err)
	}
	p.Faults.Set(nil)
}

func reportsRateLimit(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("A text.\n"))
	if p.Faults == nil {
		return
	}
	c := p.open(t)
	item := p.byName(t, list(t, c, ""))["a.txt"]
	before := p.Faults.Requests()
	p.Faults.Set(&Fault{Status: http.StatusTooManyRequests, RetryAfter: retryAfterSeconds})
	_, err := c.List(t.Context(), "")
	p.checkLimit(t, "listing", err)
	_, _, err = p.fetch(t.Context(), c, item)
	p.checkLimit(t, "fetching", err)
	p.Faults.Set(nil)
	if made := p.Faults.Requests() - before; made > 20 {
		t.Errorf("two calls made %d requests of a server that wanted fewer", made)
	}
	if _, err := c.List(t.Context(), ""); err != nil {
		t.Errorf("afterwards, listing gives %v", err)
	}
}

func (p Fixture) checkLimit(t testing.TB, what string, err error) {
	t.Helper()
	var limit *source.RateLimitError
	switch {
	case !errors.As(err, &limit):
		t.Errorf("%s too fast gives %v, want a RateLimitError", what, err)
	case !p.NoRetryAfter && (limit.After > retryAfterSeconds*time.Second || limit.After < (retryAfterSeconds-6)*time.Second):
		t.Errorf("%s too fast asks to wait for %s, the server for %ds", what, limit.After, retryAfterSeconds)
	}
}

func survivesOutages(t *testing.T, p Fixture) {
	files := p.fill(t)
	faults := p.faults()
	if faults == nil {
		return
	}
	c := p.open(t)
	item := p.byName(t, list(t, c, ""))["reports.txt"]
	faults.Set(&Fault{Status: http.StatusServiceUnavailable})
	_, err := c.List(t.Context(), "")
	checkTransient(t, "listing", err)
	_, _, err = p.fetch(t.Context(), c, item)
	checkTransient(t, "fetching", err)
	faults.Set(nil)
	if content, _, err := p.fetch(t.Context(), c, item); err != nil || !p.same(files["reports.txt"], content) {
		t.Errorf("after an outage, fetching gives %q, %v", content, err)
	}
	if found := p.byName(t, list(t, c, "")); len(found) != len(files) {
		t.Errorf("after an outage, %d items are listed, want %d", len(found), len(files))
	}
}

// checkTransient checks that an error is not one that gives up the source or the item for good.
func checkTransient(t testing.TB, what string, err error) {
	t.Helper()
	var item *source.ItemError
	var field *source.FieldError
	if err == nil || errors.Is(err, source.ErrGone) || errors.Is(err, source.ErrRefused) || errors.As(err, &item) || errors.As(err, &field) {
		t.Errorf("%s while the server is out of order gives %v", what, err)
	}
}

// longText returns a megabyte that hardly compresses.
func longText() []byte {
	var out bytes.Buffer
	for i, x := 0, uint64(1); out.Len() < 1_000_000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&out, "Measurement %d is %d.\n", i, x)
	}
	return out.Bytes()
}

func failsOnTruncatedFile(t *testing.T, p Fixture) {
	content := longText()
	p.Put(t, "long.txt", content)
	faults := p.faults()
	if faults == nil {
		return
	}
	c := p.open(t)
	item := p.byName(t, list(t, c, ""))["long.txt"]
	faults.Set(&Fault{Break: 100_000, Match: p.Content})
	got, _, err := p.fetch(t.Context(), c, item)
	if err == nil {
		t.Errorf("a body whose connection broke reads as %d bytes of %d, without an error", len(got), len(content))
	}
	checkTransient(t, "reading", err)
	faults.Set(nil)
	if got, _, err := p.fetch(t.Context(), c, item); err != nil || !p.same(content, got) {
		t.Errorf("afterwards, fetching gives %d bytes, %v", len(got), err)
	}
}

func failsOnTruncatedListing(t *testing.T, p Fixture) {
	files := p.fill(t)
	faults := p.faults()
	if faults == nil {
		return
	}
	c := p.open(t)
	for name, fault := range map[string]*Fault{
		"breaks": {Break: 150, Match: p.Listing}, "is cut short": {Truncate: 150, Match: p.Listing},
	} {
		faults.Set(fault)
		if err := p.listFirst(t.Context(), c); err == nil {
			t.Errorf("a listing that %s gives no error", name)
		}
		faults.Set(nil)
		if found := p.byName(t, list(t, c, "")); len(found) != len(files) {
			t.Errorf("afterwards, %d items are listed, want %d", len(found), len(files))
		}
	}
}
