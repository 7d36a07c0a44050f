package httpserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// Certificate is what a server shows to its clients: a certificate and its key, from files. It
// follows the files: a pair that was replaced is shown to the next client, and one that does not
// work is logged and not taken.
type Certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	read    [2][]byte // what the files last held, whether it was taken or not
	problem error     // why that was not taken
	logged  string    // the last problem that was logged; empty: it is over
}

// ReadCertificate reads a certificate and its key, both PEM.
func ReadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.follow(); err != nil {
		return nil, err
	}
	return c, nil
}

// follow takes the pair that the files hold now, if it is another one. The files are compared as a
// whole: their times may be too coarse, and they may be links.
func (c *Certificate) follow() error {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	if bytes.Equal(cert, c.read[0]) && bytes.Equal(key, c.read[1]) {
		return c.problem
	}
	c.read, c.problem = [2][]byte{cert, key}, nil
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		c.problem = fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
		return c.problem
	}
	c.current = &pair
	return nil
}

// get returns the pair to show: the files' or, while they hold none that works, the one before.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.current
	err := c.follow()
	switch {
	case err == nil && c.current != before:
		slog.Info("the certificate was replaced", "file", c.certFile)
		c.logged = ""
	case err == nil:
		c.logged = ""
	case err.Error() != c.logged:
		slog.Error("cannot use the new certificate; keeping the previous one", "error", err)
		c.logged = err.Error()
	}
	return c.current, nil
}

// Host is the name that a client of this machine asks for: host if the certificate is for it, else
// the certificate's first name.
func (c *Certificate) Host(host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := c.current.Leaf
	if leaf.VerifyHostname(host) == nil {
		return host
	}
	if ip := net.ParseIP(host); ip.IsLoopback() && leaf.VerifyHostname("localhost") == nil {
		return "localhost"
	}
	for _, name := range leaf.DNSNames {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return host
}

// Encrypt has server speak TLS 1.2 or newer with the certificate. It speaks HTTP/1.1 alone: Guard's
// limits are those of one request on a connection. ServeTLS without files then serves.
func (c *Certificate) Encrypt(server *http.Server) {
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
}
