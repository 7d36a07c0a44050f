package main

// This file has the cluster's certificate authority and the certificates that it issues.

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
	"time"
)

// clients are the clients of the API server, by the names of their files. Kubernetes itself grants
// these names and groups the rights that they need, except for CoreDNS and kube-router, whose
// rights are in files/cluster/rights.yaml.
func clients() map[string]pkix.Name {
	all := map[string]pkix.Name{
		"admin":              {CommonName: "admin", Organization: []string{"system:masters"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"proxy":              {CommonName: "system:kube-proxy"},
		"dns":                {CommonName: "coredns"},
		"policies":           {CommonName: "kube-router"},
		"api-server-client":  {CommonName: "api-server", Organization: []string{"system:masters"}},
		"front-proxy":        {CommonName: "front-proxy"},
	}
	for _, p := range places {
		all[p.Name] = pkix.Name{CommonName: "system:node:" + p.Name, Organization: []string{"system:nodes"}}
	}
	return all
}

// certificates are PEM files in a directory: ca.crt, service-account.key, and NAME.crt and NAME.key
// for each client.
type certificates struct {
	dir       string
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
}

func makeCertificates(dir string) (*certificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &certificates{dir: dir}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sluice-kube"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if c.authority, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	c.key = key
	if err := c.write("ca.crt", "CERTIFICATE", der); err != nil {
		return nil, err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := c.writeKey("service-account.key", tokens); err != nil {
		return nil, err
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		IPAddresses: []net.IP{net.ParseIP(places[0].Address), net.ParseIP(firstService), net.ParseIP("127.0.0.1")}}
	if err := c.issue("api-server", server); err != nil {
		return nil, err
	}
	for name, subject := range clients() {
		if err := c.issue(name, &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// issue creates NAME.crt and NAME.key.
func (c *certificates) issue(name string, template *x509.Certificate) error {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, c.authority.NotBefore, c.authority.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.authority, key.Public(), c.key)
	if err != nil {
		return err
	}
	if err := c.write(name+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return c.writeKey(name+".key", key)
}

func (c *certificates) writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return c.write(file, "EC PRIVATE KEY", der)
}

func (c *certificates) write(file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(c.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
