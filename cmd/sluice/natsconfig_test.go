package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestASigningKeyIsChangedWithoutAGap: existing keys are kept, and a new key is trusted beside the
// one that it replaces.
func TestASigningKeyIsChangedWithoutAGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	run := func() (*signature.Signer, *signature.Trusted) {
		if err := (&natsConfigCommand{Dir: dir, Store: "/data"}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		signer, err := signature.ReadSigner("key", filepath.Join(dir, signingKeyFile(wire.ProgramServe)))
		if err != nil {
			t.Fatal(err)
		}
		trusted, err := signature.ReadTrusted("keys", filepath.Join(dir, trustedKeysFile))
		if err != nil {
			t.Fatal(err)
		}
		return signer, trusted
	}
	old, _ := run()
	if again, _ := run(); again.Private() != old.Private() {
		t.Error("a key that was there was changed")
	}
	if err := os.Remove(filepath.Join(dir, signingKeyFile(wire.ProgramServe))); err != nil {
		t.Fatal(err)
	}
	made, trusted := run()
	if made.Private() == old.Private() {
		t.Error("the key was not changed")
	}
	x := signature.Statement{Subject: wire.SearchSubject, Request: "1"}
	for _, s := range []*signature.Signer{old, made} {
		if err := trusted.Checker(string(wire.ProgramServe)).Check(x, s.Sign(x)); err != nil {
			t.Error(err)
		}
	}
	// A key file that cannot be read is an error, and is not replaced.
	if err := os.WriteFile(filepath.Join(dir, signingKeyFile(wire.ProgramServe)), []byte("serve"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&natsConfigCommand{Dir: dir, Store: "/data"}).Run(t.Context()); err == nil {
		t.Error("a file without a key was taken")
	}
}
