// Package certtest makes certificates for tests: an authority, and what it signs for servers and
// clients, as files.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates that who trusts File believes.
type Authority struct {
	File string // its certificate, PEM

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair are the files of a certificate and its key, PEM.
type Pair struct{ Cert, Key string }

// New makes an authority. Its files, and those of what it signs, are in dir.
func New(t testing.TB, dir string) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: dir, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of " + t.Name()}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	var pair Pair
	pair, a.key = a.sign("authority", a.cert)
	a.File = pair.Cert
	return a
}

// Server makes the certificate of a server that is reached under the names, or addresses.
func (a *Authority) Server(names ...string) Pair {
	a.t.Helper()
	return a.server(names, x509.ExtKeyUsageServerAuth)
}

func (a *Authority) server(names []string, usages ...x509.ExtKeyUsage) Pair {
	a.t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usages}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	pair, _ := a.sign("server-"+names[0], c)
	return pair
}

// Peer makes the certificate of a server that connects to others of its kind, too.
func (a *Authority) Peer(names ...string) Pair {
	a.t.Helper()
	return a.server(names, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// Client makes the certificate of a client.
func (a *Authority) Client(name string) Pair {
	a.t.Helper()
	pair, _ := a.sign("client-"+name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return pair
}

func (a *Authority) sign(name string, c *x509.Certificate) (Pair, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	a.must(err)
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	by := a.key
	if by == nil { // itself
		by = key
	}
	signed, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, by)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	pair := Pair{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
	a.must(os.WriteFile(pair.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o644))
	a.must(os.WriteFile(pair.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return pair, key
}

func (a *Authority) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal("certtest: ", err)
	}
}
