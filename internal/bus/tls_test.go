package bus_test

// Tests of NATS over TLS, with certificates on both sides.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestNATSOverTLSWithCertificatesOfBothSides(t *testing.T) {
	ours, others := certtest.New(t, t.TempDir()), certtest.New(t, t.TempDir())
	server := ours.Server("127.0.0.1")
	address, dir := configured(t, bus.ServerConfig{Cert: server.Cert, Key: server.Key, CA: ours.File})
	address = strings.Replace(address, "nats://", "tls://", 1)
	seed := filepath.Join(dir, bus.CredentialsFile(wire.ProgramServe))
	mine, theirs := ours.Client("serve"), others.Client("serve")
	for name, c := range map[string]struct {
		files bus.Files
		ok    bool
	}{
		"as it should be":          {bus.Files{NATSCredentials: seed, NATSCA: ours.File, NATSCert: mine.Cert, NATSKey: mine.Key}, true},
		"no authority":             {bus.Files{NATSCredentials: seed, NATSCert: mine.Cert, NATSKey: mine.Key}, false},
		"another authority":        {bus.Files{NATSCredentials: seed, NATSCA: others.File, NATSCert: mine.Cert, NATSKey: mine.Key}, false},
		"no certificate":           {bus.Files{NATSCredentials: seed, NATSCA: ours.File}, false},
		"another's certificate":    {bus.Files{NATSCredentials: seed, NATSCA: ours.File, NATSCert: theirs.Cert, NATSKey: theirs.Key}, false},
		"no credentials":           {bus.Files{NATSCA: ours.File, NATSCert: mine.Cert, NATSKey: mine.Key}, false},
		"a certificate, no key":    {bus.Files{NATSCredentials: seed, NATSCA: ours.File, NATSCert: mine.Cert}, false},
		"credentials that are not": {bus.Files{NATSCredentials: mine.Cert, NATSCA: ours.File, NATSCert: mine.Cert, NATSKey: mine.Key}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if !c.ok {
			ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond) //house:clock Connect tries again until its context ends
		}
		nc, err := bus.Connect(ctx, bus.Options{URL: address, Name: name, Program: wire.ProgramServe, Files: c.files})
		cancel()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if _, err := nc.TLSConnectionState(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			nc.Close()
		}
	}
}

// TestCredentialsStay: credentials stay when the server's configuration is written again.
func TestCredentialsStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func() string {
		if err := (bus.ServerConfig{Store: "/data"}).Write(dir); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, p := range wire.Programs() {
			seed, err := os.ReadFile(filepath.Join(dir, bus.CredentialsFile(p)))
			if err != nil {
				t.Fatal(err)
			}
			text += string(seed)
			config, err := os.ReadFile(filepath.Join(dir, bus.ServerConfigFile))
			if err != nil || strings.Contains(string(config), strings.TrimSpace(string(seed))) {
				t.Errorf("the configuration holds the secret of %s, or %v", p, err)
			}
		}
		return text
	}
	first := read()
	if again := read(); again != first || first == "" {
		t.Error("credentials changed")
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can enter the folder: %v, %v", info.Mode(), err)
	}
	if err := (bus.ServerConfig{Cert: "c"}).Write(dir); err == nil {
		t.Error("a certificate without its key was taken")
	}
}
