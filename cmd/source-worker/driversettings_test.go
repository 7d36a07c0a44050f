package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/sluice-rag/sluice/internal/source"
)

// Credentials that must not be shown.
const (
	password = "Correct-Horse/Battery+Staple"
	token    = "ya29.A-token-that-nobody-may-see"
)

// keyPair returns a new SSH key, and an RSA key in the format that services use.
var keyPair = sync.OnceValues(func() (openSSH, service string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		panic(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(large)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(block)), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
})

// hostKey returns the public key of a server.
func hostKey() string {
	openSSH, _ := keyPair()
	signer, err := ssh.ParsePrivateKey([]byte(openSSH))
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func object(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// driverSettings returns settings for each driver, by the driver's name and a variant if it has
// several. They use a server at a host and port if the driver takes an address, else the service's
// own name.
func driverSettings(host, port string) map[string]map[string]string {
	openSSH, service := keyPair()
	at := "http://" + net.JoinHostPort(host, port)
	tokens := object(map[string]string{"access_token": token, "refresh_token": token + "-2", "token_type": "Bearer", "expiry": "2099-01-01T00:00:00Z"})
	account := object(map[string]string{"type": "service_account", "client_email": "a@example.org", "private_key": service,
		"private_key_id": "key-id-of-the-account", "token_uri": at + "/token"})
	return map[string]map[string]string{
		"webdav":            {"url": at, "user": "reader", "password": password},
		"s3":                {"endpoint": at, "bucket": "docs", "access_key": "AKIAEXAMPLE", "secret_key": password},
		"s3 of Amazon":      {"bucket": "docs", "access_key": "AKIAEXAMPLE", "secret_key": password},
		"sftp":              {"host": host, "port": port, "host_key": hostKey(), "user": "reader", "password": password},
		"smb":               {"host": host, "port": port, "share": "docs", "user": "reader", "password": password},
		"gcs":               {"bucket": "docs", "endpoint": at},
		"gcs of Google":     {"bucket": "docs"},
		"gcs and account":   {"bucket": "docs", "service_account": account},
		"azureblob":         {"account": "examples", "key": base64.StdEncoding.EncodeToString([]byte(password)), "container": "docs", "endpoint": at},
		"onedrive":          {"drive_id": "d", "drive_type": "business", "token": tokens},
		"drive":             {"token": tokens},
		"drive and account": {"service_account": account},
		"dropbox":           {"token": tokens},
		"box": {"config": object(map[string]any{"boxAppSettings": map[string]any{"clientID": "id", "clientSecret": token, "appAuth": map[string]string{
			"publicKeyID": "key", "privateKey": service, "passphrase": ""}}, "enterpriseID": "1"})},
		"web":          {"url": at + "/sitemap.xml", "user": "reader", "password": password, "delay_ms": "0"},
		"web by links": {"url": at + "/", "user": "reader", "password": password, "delay_ms": "0"},
		"git":          {"url": at + "/handbook.git", "user": "reader", "password": password},
		"git by SSH":   {"url": "ssh://git@" + net.JoinHostPort(host, port) + "/handbook.git", "private_key": openSSH, "host_key": hostKey()},
		"imap":         {"host": host, "port": port, "user": "reader", "password": password},
	}
}

// driverFor returns the driver of a row. The test fails if a driver has no row.
func driverFor(t *testing.T, row string) source.Driver {
	t.Helper()
	rows := driverSettings("h", "1")
	var found source.Driver
	for _, d := range drivers() {
		if rows[d.Name] == nil {
			t.Errorf("the test has no settings for %s", d.Name)
		}
		if d.Name == strings.Fields(row)[0] {
			found = d
		}
	}
	return found
}

// attempt opens a source and lists it.
func attempt(ctx context.Context, d source.Driver, settings source.Settings) error {
	c, err := d.Open(ctx, settings)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.List(ctx, ""); err != nil {
		return err
	}
	return nil
}

// speakHTTP are the rows whose servers use HTTP.
var speakHTTP = []string{"webdav", "s3", "gcs", "web", "web by links", "git"}

// credentialsIn returns the credentials in the settings of a row.
func credentialsIn(row string) (out []string) {
	_, service := keyPair()
	known := []string{password, token}
	for line := range strings.Lines(service) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && len(line) > 16 {
			known = append(known, line)
		}
	}
	for _, value := range driverSettings("h", "1")[row] {
		for _, secret := range known {
			if strings.Contains(value, secret) {
				out = append(out, secret)
			}
		}
	}
	return out
}

// leakedSecret returns the first credential of a row that a text contains, in plain or encoded
// form.
func leakedSecret(row, text string) string {
	for _, secret := range credentialsIn(row) {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte("reader:" + secret))} {
			if strings.Contains(text, form) {
				return form
			}
		}
	}
	return ""
}
