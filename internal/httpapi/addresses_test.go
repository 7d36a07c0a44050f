package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// addressKey has one key, which may be used from some addresses.
type addressKey struct{ from []netip.Prefix }

func (b addressKey) Authenticate(context.Context, string) (schema.Principal, error) {
	return schema.Principal{Tenant: uuid.UUID{1}, Key: uuid.UUID{2}, Name: "loader", Scopes: []schema.Scope{schema.ScopeQuery}, Addresses: b.from}, nil
}

func TestAKeyIsUsedFromItsAddresses(t *testing.T) {
	office := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("203.0.113.7/32")}
	for _, c := range []struct {
		from      []netip.Prefix
		at        string // where the connection comes from
		forwarded string
		refused   string // the address that the refusal names
	}{
		{nil, "192.0.2.1:1000", "", ""},
		{office, "10.1.2.3:1000", "", ""},
		{office, "[::ffff:10.1.2.3]:1000", "", ""},
		{office, "[2001:db8::1]:1000", "", ""},
		{office, "203.0.113.7:1000", "", ""},
		{office, "203.0.113.8:1000", "", "203.0.113.8"},
		{office, "[2001:db9::1]:1000", "", "2001:db9::1"},
		{office, "not an address", "", "not an address"},
		// Forwarded addresses count only from a trusted proxy.
		{office, "192.0.2.1:1000", "10.1.2.3", "192.0.2.1"},
		{office, "172.16.0.1:1000", "10.1.2.3", ""},
		{office, "172.16.0.1:1000", "10.1.2.3, 192.0.2.9", "192.0.2.9"},
		{office, "172.16.0.1:1000", "", "172.16.0.1"},
	} {
		h := New(Options{Authenticator: addressKey{c.from}, Sessions: plainSessions{}, Collections: anyCollection{}, Questions: scripted{},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}})
		for _, begin := range []bool{false, true} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/whoami", nil)
			r.Header.Set("Authorization", "Bearer good")
			if begin {
				r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/session", strings.NewReader(`{"key":"good"}`))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(sessionHeader, "1")
			}
			r.RemoteAddr = c.at
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := http.StatusOK
			if c.refused != "" {
				want = http.StatusForbidden
			}
			if w.Code != want || !strings.Contains(w.Body.String(), c.refused) {
				t.Errorf("%s from %q, forwarded for %q: got %d %s; want %d that names %q", r.URL.Path, c.at, c.forwarded, w.Code, w.Body, want, c.refused)
			}
			if c.refused != "" && w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s from %q: a session began", r.URL.Path, c.at)
			}
		}
	}
}

// TestAddressesGoNoFurther: a key's addresses are checked per request, and are not sent on with the
// principal.
func TestAddressesGoNoFurther(t *testing.T) {
	sent, err := json.Marshal(schema.Principal{Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	if err != nil || strings.Contains(string(sent), "10.1") {
		t.Errorf("got %s, %v", sent, err)
	}
}

func TestRangesOfAddressesAreRead(t *testing.T) {
	got, err := readAddresses([]string{"203.0.113.7", "10.1.2.3/16", "2001:db8::1"})
	want := []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::1/128")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, wrong := range []string{"", "office", "10.1.0.0/33", "10.1", "::ffff:10.1.0.0/112"} {
		_, err := readAddresses([]string{"10.0.0.1", wrong})
		var field *schema.FieldError
		if !errors.As(err, &field) || field.Field != "addresses[1]" {
			t.Errorf("%q: got %v, want an error of addresses[1]", wrong, err)
		}
	}
}
