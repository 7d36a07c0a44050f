package certtest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"

	"github.com/sluice-rag/sluice/internal/certtest"
)

func TestServerAndClientTrustTheirAuthorityAlone(t *testing.T) {
	ours, others := certtest.New(t, t.TempDir()), certtest.New(t, t.TempDir())
	load := func(p certtest.Pair) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	pool := func(a *certtest.Authority) *x509.CertPool {
		data, err := os.ReadFile(a.File)
		if err != nil {
			t.Fatal(err)
		}
		p := x509.NewCertPool()
		if !p.AppendCertsFromPEM(data) {
			t.Fatal("no certificate")
		}
		return p
	}
	server := &tls.Config{Certificates: load(ours.Server("127.0.0.1", "db.example")), ClientCAs: pool(ours), ClientAuth: tls.RequireAndVerifyClientCert}
	for name, c := range map[string]struct {
		client *tls.Config
		ok     bool
	}{
		"as it should be":    {&tls.Config{RootCAs: pool(ours), ServerName: "127.0.0.1", Certificates: load(ours.Client("c"))}, true},
		"its other name":     {&tls.Config{RootCAs: pool(ours), ServerName: "db.example", Certificates: load(ours.Client("c"))}, true},
		"another name":       {&tls.Config{RootCAs: pool(ours), ServerName: "web.example", Certificates: load(ours.Client("c"))}, false},
		"another authority":  {&tls.Config{RootCAs: pool(others), ServerName: "127.0.0.1", Certificates: load(ours.Client("c"))}, false},
		"no certificate":     {&tls.Config{RootCAs: pool(ours), ServerName: "127.0.0.1"}, false},
		"another's":          {&tls.Config{RootCAs: pool(ours), ServerName: "127.0.0.1", Certificates: load(others.Client("c"))}, false},
		"a server's as ours": {&tls.Config{RootCAs: pool(ours), ServerName: "127.0.0.1", Certificates: load(ours.Server("c"))}, false},
	} {
		a, b := net.Pipe()
		accepted := make(chan error, 1)
		go func() { accepted <- tls.Server(a, server).Handshake(); _ = a.Close() }()
		err := tls.Client(b, c.client).Handshake()
		_ = b.Close()
		if there := <-accepted; (err == nil && there == nil) != c.ok {
			t.Errorf("%s: the client got %v, the server %v", name, err, there)
		}
	}
}
