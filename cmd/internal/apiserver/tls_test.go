package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
)

// logBuffer is a log that tests can read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), s)
}

// TestTheAPISpeaksHTTPS: a client that trusts the authority gets a reply and others do not. The
// certificate is replaced without a restart, but only by a valid one.
func TestTheAPISpeaksHTTPS(t *testing.T) {
	log := &logBuffer{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	ours := certtest.New(t, t.TempDir())
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "api.crt"), filepath.Join(dir, "api.key")
	put := func(from, to string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := ours.Server("127.0.0.1", "first.example")
	put(first.Cert, cert)
	put(first.Key, key)
	w := newWorldServed(t, localtest.Database(t), store.Options{}, config.HTTP{APITLSCert: cert, APITLSKey: key}, apiserver.Deps{})
	if !strings.HasPrefix(w.url, "https://127.0.0.1:") {
		t.Fatalf("the API is at %s", w.url)
	}
	asks := func(ca, url string) error {
		c, err := apiclient.Trusting(ca, url, w.key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.WhoAmI(t.Context())
		return err
	}
	// A client that does not trust the certificate does not send its key.
	shown := func(max uint16) (string, error) {
		data, err := os.ReadFile(ours.File)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(data)
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: max}}
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.url, "https://"))
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0], nil
	}
	want := func(name string) {
		t.Helper()
		if got, err := shown(0); err != nil || got != name {
			t.Errorf("the API shows %q (%v), not %s", got, err, name)
		}
		if err := asks(ours.File, w.url); err != nil {
			t.Error(err)
		}
	}
	want("first.example")
	if _, err := shown(tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	for _, ca := range []string{"", certtest.New(t, t.TempDir()).File} {
		if err := asks(ca, w.url); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("an authority that did not sign: %v", err)
		}
	}
	if err := asks(ours.File, strings.Replace(w.url, "https", "http", 1)); err == nil {
		t.Error("plain HTTP is answered")
	}

	second := ours.Server("127.0.0.1", "second.example")
	put(second.Cert, cert) // its key has not been written yet
	want("first.example")
	want("first.example")
	if n := log.count("keeping the previous one"); n != 1 {
		t.Errorf("the pair that does not fit was logged %d times", n)
	}
	put(second.Key, key)
	want("second.example")
	for file, broken := range map[string]string{cert: "no certificate", key: ""} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		want("second.example")
	}
	for _, file := range []string{cert, key} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	want("second.example")
	put(second.Cert, cert)
	put(second.Key, key)
	want("second.example")
}

// TestTheAPIIsNamedAsItsCertificate: the printed URL has a name that the certificate is for.
func TestTheAPIIsNamedAsItsCertificate(t *testing.T) {
	w := newWorld(t)
	ours := certtest.New(t, t.TempDir())
	for want, names := range map[string][]string{
		"127.0.0.1": {"web.example", "127.0.0.1"}, "localhost": {"web.example", "localhost"}, "web.example": {"*.example", "web.example"},
	} {
		pair := ours.Server(names...)
		s, err := apiserver.New(t.Context(), config.HTTP{Listen: "127.0.0.1:0", APITLSCert: pair.Cert, APITLSKey: pair.Key},
			apiserver.Deps{Store: w.store.Store, NATS: w.nats})
		if err != nil {
			t.Fatal(err)
		}
		if host, _, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "https://")); err != nil || host != want {
			t.Errorf("%v gave %s", names, s.URL())
		}
		s.Close()
	}
}

func TestBadCertificatesOfTheAPIAreRefusedAtTheStart(t *testing.T) {
	w := newWorld(t)
	ours := certtest.New(t, t.TempDir())
	one, two := ours.Server("one.example"), ours.Server("two.example")
	for name, c := range map[string]config.HTTP{
		"no key":         {APITLSCert: one.Cert},
		"no certificate": {APITLSKey: one.Key},
		"another's key":  {APITLSCert: one.Cert, APITLSKey: two.Key},
		"no file":        {APITLSCert: filepath.Join(t.TempDir(), "none"), APITLSKey: one.Key},
	} {
		c.Listen = "127.0.0.1:0"
		s, err := apiserver.New(t.Context(), c, apiserver.Deps{Store: w.store.Store, NATS: w.nats})
		if err == nil {
			s.Close()
			t.Errorf("%s: taken", name)
		} else if !strings.Contains(err.Error(), "SLUICE_API_TLS_CERT") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := apiclient.Trusting(one.Key, "https://one.example", "key"); err == nil || !strings.Contains(err.Error(), "SLUICE_API_TLS_CA") {
		t.Errorf("an authority without a certificate: %v", err)
	}
}
