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

// Certificate is a server's certificate and key, from files. Changes of the files are followed: new
// connections get the new pair. A new pair that is invalid is logged and not used.
type Certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	read    [2][]byte // the last content of the files, whether or not it was valid
	problem error     // why the last content is not used
	logged  string    // the last problem that was logged; empty: there is none now
}

// ReadCertificate reads a certificate and its key, both PEM.
func ReadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.follow(); err != nil {
		return nil, err
	}
	return c, nil
}

// follow loads the pair from the files if their content has changed. It compares contents, because
// modification times may be too coarse and the files may be links.
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

// get returns the pair in the files or, while that is invalid, the last valid one.
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

// Host returns the host name under which a client on this machine reaches the server: host if the
// certificate is for it, else the certificate's first name.
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

// Encrypt makes server use TLS 1.2 or newer with the certificate, and HTTP/1.1 only, because
// Guard's limits assume one request at a time on a connection. Call ServeTLS without files then.
func (c *Certificate) Encrypt(server *http.Server) {
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
}
