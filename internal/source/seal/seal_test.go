package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

var secrets = map[string]string{"password": "open sesame"}

func read(t *testing.T, keys ...string) Keys {
	t.Helper()
	k, err := Read("", strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedSecretsOpenForTheirSourceOnly(t *testing.T) {
	k, tenant, source := read(t, NewKey()), uuid.New(), uuid.New()
	sealed, err := k.Seal(tenant, source, secrets)
	if err != nil || bytes.Contains(sealed, []byte("sesame")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := k.Open(tenant, source, sealed); err != nil || got["password"] != "open sesame" {
		t.Errorf("%v, %v", got, err)
	}
	for what, open := range map[string]func() (map[string]string, error){
		"another tenant": func() (map[string]string, error) { return k.Open(uuid.New(), source, sealed) },
		"another source": func() (map[string]string, error) { return k.Open(tenant, uuid.New(), sealed) },
		"another key":    func() (map[string]string, error) { return read(t, NewKey()).Open(tenant, source, sealed) },
		"no key":         func() (map[string]string, error) { return Keys{}.Open(tenant, source, sealed) },
		"cut short":      func() (map[string]string, error) { return k.Open(tenant, source, sealed[:12]) },
		"changed": func() (map[string]string, error) {
			changed := bytes.Clone(sealed)
			changed[len(changed)-1] ^= 1
			return k.Open(tenant, source, changed)
		},
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s opened it: %v", what, got)
		}
	}
}

func TestAnOlderKeyOpensStill(t *testing.T) {
	older, newer, tenant, source := NewKey(), NewKey(), uuid.New(), uuid.New()
	sealed, err := read(t, older).Seal(tenant, source, secrets)
	if err != nil {
		t.Fatal(err)
	}
	both := read(t, newer, older)
	if got, err := both.Open(tenant, source, sealed); err != nil || got["password"] != "open sesame" {
		t.Errorf("%v, %v", got, err)
	}
	again, err := both.Seal(tenant, source, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, newer).Open(tenant, source, again); err != nil {
		t.Errorf("the first key did not seal: %v", err)
	}
}

func TestWithoutAKeySecretsAreRefusedWithTheRemedy(t *testing.T) {
	if _, err := (Keys{}).Seal(uuid.New(), uuid.New(), secrets); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), KeyFile) {
		t.Error(err)
	}
	if sealed, err := (Keys{}).Seal(uuid.New(), uuid.New(), nil); sealed != nil || err != nil {
		t.Errorf("no secrets need no key: %v, %v", sealed, err)
	}
}

func TestWrongKeysNameTheSetting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{file, "", KeyFile}, {"", "short", KeyVariable}, {file, NewKey(), KeyVariable}} {
		if _, err := Read(c[0], c[1]); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if err := os.WriteFile(file, []byte(NewKey()+NewKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := Read(file, ""); err != nil || len(k.keys) != 2 || !k.HasKey() {
		t.Errorf("%v, %v", k, err)
	}
}
