package signature

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

func signer(t *testing.T, program string) *Signer {
	t.Helper()
	s, err := NewSigner(program)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func trusted(t *testing.T, lines ...string) *Trusted {
	t.Helper()
	k, err := ParseTrusted(strings.Join(lines, ""))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var asked = Statement{Subject: "sluice.query.search", Reply: "_INBOX.serve.a.reply", Request: "1", Data: []byte(`{"tenant":"a"}`)}

func TestOnlyWhatWasSignedIsTaken(t *testing.T) {
	serve, thief := signer(t, "serve"), signer(t, "serve")
	keys := trusted(t, serve.Public(), signer(t, "query-worker").Public())
	good := serve.Sign(asked)
	if err := keys.Checker("serve").Check(asked, good); err != nil {
		t.Error(err)
	}
	altered := func(change func(*Statement)) Statement {
		x := asked
		change(&x)
		return x
	}
	for name, c := range map[string]struct {
		x         Statement
		signature string
	}{
		"unsigned":            {asked, ""},
		"another tenant":      {altered(func(x *Statement) { x.Data = []byte(`{"tenant":"b"}`) }), good},
		"another operation":   {altered(func(x *Statement) { x.Subject = "sluice.query.ask" }), good},
		"another's inbox":     {altered(func(x *Statement) { x.Reply = "_INBOX.gpu-segmenter.a" }), good},
		"another request":     {altered(func(x *Statement) { x.Request = "2" }), good},
		"parts that moved":    {altered(func(x *Statement) { x.Subject, x.Reply = x.Subject+x.Reply, "" }), good},
		"a wrong key":         {asked, thief.Sign(asked)},
		"no key of that name": {asked, signer(t, "gpu-segmenter").Sign(asked)},
		"another time":        {asked, strings.Replace(good, " 1", " 2", 1)},
		"another name":        {asked, strings.Replace(good, "serve", "query-worker", 1)},
		"another version":     {asked, strings.Replace(good, "v1", "v2", 1)},
		"rubbish":             {asked, "a b"},
	} {
		if err := keys.Checker("serve").Check(c.x, c.signature); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A program that is trusted for something else.
	if err := keys.Checker("query-worker").Check(asked, good); err == nil {
		t.Error("a program signed what it may not")
	}
	var none *Trusted
	if err := none.Checker("serve").Check(asked, ""); err != nil {
		t.Errorf("without keys: %v", err)
	}
}

func TestASignatureExpiresAndIsTakenOnce(t *testing.T) {
	serve := signer(t, "serve")
	keys := trusted(t, serve.Public())
	now := time.Now()
	serve.now = func() time.Time { return now }
	for off, ok := range map[time.Duration]bool{0: true, Validity - time.Second: true, 2*time.Second - Validity: true, Validity + 2*time.Second: false,
		-Validity - 2*time.Second: false, time.Hour: false} {
		keys.now = func() time.Time { return now.Add(off) }
		if err := keys.Checker("serve").Check(asked, serve.Sign(asked)); (err == nil) != ok {
			t.Errorf("after %s: %v", off, err)
		}
	}
	keys.now = func() time.Time { return now }
	c := keys.Checker("serve")
	if err := c.Check(asked, serve.Sign(asked)); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, Validity - time.Second, Validity} {
		keys.now = func() time.Time { return now.Add(later) }
		if err := c.Check(asked, serve.Sign(asked)); err == nil {
			t.Errorf("it was taken again after %s", later)
		}
	}
	keys.now = func() time.Time { return now.Add(time.Hour) }
	c.first("another", keys.now())
	if len(c.seen) != 1 {
		t.Errorf("%d requests are remembered", len(c.seen))
	}
}

func TestKeysAreReadFromFiles(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	old, made := signer(t, "serve"), signer(t, "serve")
	// Both keys are taken while one is changed for the other.
	keys, err := ReadTrusted("SLUICE_TRUSTED_KEYS", file("# keys\n"+old.Public()+"\n"+strings.TrimSpace(made.Public())+" # new\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Signer{old, made} {
		read, err := ReadSigner("SLUICE_SIGNING_KEY", file(s.Private()))
		if err != nil {
			t.Fatal(err)
		}
		if err := keys.Checker("serve").Check(asked, read.Sign(asked)); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "serve", "serve public x", "serve private x", old.Public(), "serve private AAAA"} {
		var field *schema.FieldError
		if _, err := ReadSigner("SLUICE_SIGNING_KEY", file(bad)); !errors.As(err, &field) || field.Field != "SLUICE_SIGNING_KEY" {
			t.Errorf("%q gave %v", bad, err)
		} else if strings.Contains(err.Error(), "AAAA") {
			t.Errorf("a key is in an error: %v", err)
		}
	}
	for _, bad := range []string{"", "# none", "serve", "serve x", old.Private(), "serve AAAA"} {
		if _, err := ReadTrusted("SLUICE_TRUSTED_KEYS", file(bad)); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
	if s, err := ReadSigner("x", ""); s != nil || err != nil {
		t.Errorf("no file gave %v, %v", s, err)
	}
	if _, err := ReadTrusted("x", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}
