package oidc_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/oidc"
	"github.com/sluice-rag/sluice/schema"
)

func takes(audience string) func(*oidc.Options) {
	return func(o *oidc.Options) { o.Audience = audience }
}

func TestAccessTokensSayWhoLetTheProgramAct(t *testing.T) {
	there := localtest.NewOIDC(t, ann)
	w := setUp(t, there, takes(localtest.Assistant))
	token, id := there.Tokens(localtest.Assistant, "ann", password)
	if !schema.LooksLikeToken(token) {
		t.Fatal("the provider gives no JWT")
	}
	who, expires, err := w.p.Token(t.Context(), token)
	if err != nil || who.Subject != there.Issuer()+"|u-1" || who.Name != "Ann Example" || !slices.Equal(who.Groups, []string{"legal", "staff"}) || !expires.After(time.Now()) {
		t.Fatalf("the token is of %+v until %s: %v", who, expires, err)
	}

	head, rest, _ := strings.Cut(token, ".")
	claims, signature, _ := strings.Cut(rest, ".")
	for what, bad := range map[string]string{
		"a token without its signature": head + "." + claims + ".",
		"a token of algorithm none":     "eyJhbGciOiJub25lIn0." + claims + ".",
		"another token's claims":        head + "." + claims[:len(claims)-8] + "AAAAAAAA." + signature,
		"no token":                      "eyJ.eyJ.eyJ",
	} {
		_, _, err := w.p.Token(t.Context(), bad)
		refused(t, what, err, schema.ErrUnauthorized, "the access token is not valid")
	}
	_, _, err = w.p.Token(t.Context(), id)
	refused(t, "an ID token", err, schema.ErrUnauthorized, "ID token")
	*w.now = expires.Add(2 * time.Minute)
	_, _, err = w.p.Token(t.Context(), token)
	refused(t, "an expired token", err, schema.ErrUnauthorized, "has expired")

	_, _, err = setUp(t, there, takes("https://other.example/mcp")).p.Token(t.Context(), token)
	refused(t, "another server's token", err, schema.ErrUnauthorized, "audience")
}

// TestUnknownKeysAreAskedForSeldom: anybody can send tokens with keys that the provider does not
// have.
func TestUnknownKeysAreAskedForSeldom(t *testing.T) {
	var asked atomic.Int32
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		text := `{"keys":[]}`
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			text = `{"issuer":"` + server.URL + `","jwks_uri":"` + server.URL + `/keys","authorization_endpoint":"` + server.URL + `/a","token_endpoint":"` + server.URL + `/t"}`
		} else {
			asked.Add(1)
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(text))
	}))
	defer server.Close()
	there := localtest.NewOIDC(t, ann)
	w := setUp(t, there, takes(localtest.Assistant), func(o *oidc.Options) { o.Issuer = server.URL })
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	forged := part(`{"alg":"RS256","kid":"x"}`) + "." + part(`{"iss":"`+server.URL+`","sub":"u-1","aud":"assistant","exp":4102444800}`) + ".AAAA"
	for range 20 {
		_, _, err := w.p.Token(t.Context(), forged)
		refused(t, "a forged token", err, schema.ErrUnauthorized)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the provider was asked for its keys %d times, want once", n)
	}
	*w.now = w.now.Add(time.Minute)
	_, _, err := w.p.Token(t.Context(), forged)
	refused(t, "a forged token later", err, schema.ErrUnauthorized)
	if n := asked.Load(); n != 2 {
		t.Errorf("a minute later it was asked %d times in all, want twice", n)
	}
}
