// This file makes the certificates by which a local server and its clients authenticate each other.
// The authority's key is discarded, so that no further certificates can be issued.

package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificate is a certificate with its key, and the authority that the other side's is verified
// with. CA, Cert and Key are paths of PEM files.
type Certificate struct {
	CA, Cert, Key string
	ServerName    string
}

// certificateLifetime is the validity of certificates. Every process makes new ones, so they never
// expire.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// newCertificate makes a certificate for both sides, and writes it to files of dir that only our
// user can read.
func newCertificate(dir, name string) (_ Certificate, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making a certificate in %s: %w", dir, err)
		}
	}()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	begin := time.Now().Add(-time.Hour)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " authority"}, NotBefore: begin, NotAfter: begin.Add(certificateLifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: begin.Add(certificateLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(Host)},
	}
	authorityBytes, err := x509.CreateCertificate(rand.Reader, authority, authority, signer.Public(), signer)
	if err != nil {
		return Certificate{}, err
	}
	ownBytes, err := x509.CreateCertificate(rand.Reader, own, authority, key.Public(), signer)
	if err != nil {
		return Certificate{}, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	c := Certificate{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ServerName: name}
	return c, errors.Join(
		writePEM(c.CA, "CERTIFICATE", authorityBytes), writePEM(c.Cert, "CERTIFICATE", ownBytes), writePEM(c.Key, "PRIVATE KEY", keyBytes))
}

func writePEM(path, kind string, bytes []byte) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(fresh, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// config returns a client's TLS configuration.
func (c Certificate) config() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", c.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: c.ServerName, MinVersion: tls.VersionTLS13}, nil
}
