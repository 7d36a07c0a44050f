package auth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

func TestSessionsOpenWhatTheySealed(t *testing.T) {
	secret := strings.Repeat("s", leastSecret)
	one, err := NewSessions(secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed, ends := one.Seal("slu_key")
	if again, _ := one.Seal("slu_key"); again == sealed || strings.Contains(sealed, "slu_") {
		t.Errorf("sealing is not random, or shows the key: %q", sealed)
	}
	another, err := NewSessions(secret)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := another.Open(sealed); err != nil || key != "slu_key" {
		t.Errorf("another process with the secret opens %q, %v", key, err)
	}
	another.now = func() time.Time { return ends.Add(-time.Second) }
	if _, err := another.Open(sealed); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	another.now = func() time.Time { return ends }
	if _, err := another.Open(sealed); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("after its end: %v", err)
	}
}

func TestSessionsRefuseWhatIsNotTheirs(t *testing.T) {
	one, err := NewSessions("")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSessions("")
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := one.Seal("slu_key")
	for name, text := range map[string]string{"empty": "", "no base64": "?", "short": "AAAA", "changed": "AAAA" + sealed[4:], "cut": sealed[:len(sealed)-4]} {
		if _, err := one.Open(text); !errors.Is(err, schema.ErrUnauthorized) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Open(sealed); !errors.Is(err, schema.ErrUnauthorized) {
		t.Errorf("of another secret: %v", err)
	}
	if _, err := NewSessions("short"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a short secret: %v", err)
	}
}
