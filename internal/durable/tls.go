package durable

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sluice-rag/sluice/schema"
)

// TLS says how to verify Temporal's certificate, and which one to present. Connections are
// encrypted when any of it, or an API key, is set.
type TLS struct {
	CA         string // PEM file of the authorities that verify Temporal's certificate; the system's when empty
	Cert, Key  string // PEM files of the client certificate; read again for every connection
	ServerName string // name in Temporal's certificate; the address' host when empty
}

// encryption returns the TLS configuration, or nil for unencrypted connections.
func (o Options) encryption() (*tls.Config, error) {
	t := o.TLS
	if t == (TLS{}) && o.APIKey == "" {
		return nil, nil
	}
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("certificates that Temporal's must come from (SLUICE_TEMPORAL_TLS_CA): %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, schema.Invalid("SLUICE_TEMPORAL_TLS_CA", "%s has no certificate in PEM", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, schema.Invalid("SLUICE_TEMPORAL_TLS_CERT", "a certificate and its key (SLUICE_TEMPORAL_TLS_KEY) are needed together")
	}
	if t.Cert == "" {
		return config, nil
	}
	read := func() (*tls.Certificate, error) {
		own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("the certificate for Temporal (SLUICE_TEMPORAL_TLS_CERT, SLUICE_TEMPORAL_TLS_KEY): %w", err)
		}
		return &own, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return config, nil
}
