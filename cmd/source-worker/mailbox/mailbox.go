// Package mailbox connects sources to mailboxes by IMAP. Each message is an item, whose content is
// the message itself (message/rfc822). Mailboxes are opened read-only, so that no message is marked
// as read.
package mailbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"

	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/cmd/source-worker/secret"
	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// pageItems is the maximum number of messages on a page of a listing.
	pageItems = 500
	// pageMailboxes is the maximum number of mailboxes opened for one page.
	pageMailboxes = 100
	// defaultMaxBytes is the default maximum size of a message.
	defaultMaxBytes = 256 << 20
)

var fields = []source.Field{
	{Name: "host", Summary: "name or address of the server", Required: true},
	{Name: "port", Summary: "its port; 993 when empty, or 143 where security isn't tls"},
	{Name: "security", Summary: "how the connection is secured: tls from the start (when empty), starttls, or none, which sends the password in clear text",
		Values: []string{"tls", "starttls", "none"}},
	{Name: "ca", Summary: "certificate of the authority that issued the server's, in PEM form; the system's authorities when empty"},
	{Name: "user", Summary: "name to sign in with", Required: true},
	{Name: "password", Summary: "password, or better one made for this application", Required: true, Secret: true},
	{Name: "mailbox", Summary: "mailbox to read, with those below it, such as INBOX or Archive/2026; when empty all except trash, junk, drafts " +
		"and virtual mailboxes, which show messages of others"},
}

// Driver returns the driver of mailboxes.
func Driver() source.Driver { return secret.RedactErrors(driver(pageItems)) }

func driver(items int) source.Driver {
	return source.Driver{Name: "imap", Summary: "The messages of a mailbox, by IMAP.", Fields: fields,
		Open: func(ctx context.Context, settings source.Settings) (source.Connector, error) {
			a, err := open(ctx, settings, items)
			if err != nil {
				return nil, err
			}
			return a, nil
		}}
}

// account is a user's account, with its mailboxes.
type account struct {
	address, security string
	user, password    string
	mailbox           string // path with slashes; empty: all
	maxBytes          int64
	pageItems         int
	tls               *tls.Config
	dialer            *net.Dialer

	sem    chan struct{} // a semaphore that guards the fields below
	client *imapclient.Client
	conn   *limitedConn
}

func open(ctx context.Context, settings source.Settings, items int) (*account, error) {
	v := settings.Values
	if err := setting.Check(fields, v); err != nil {
		return nil, err
	}
	a := &account{security: v["security"], user: v["user"], password: v["password"], mailbox: strings.Trim(v["mailbox"], "/"),
		maxBytes: settings.MaxItemBytes, pageItems: items, sem: make(chan struct{}, 1),
		tls: &tls.Config{ServerName: v["host"], MinVersion: tls.VersionTLS12}}
	if a.maxBytes <= 0 {
		a.maxBytes = defaultMaxBytes
	}
	port := 993
	if a.security == "starttls" || a.security == "none" {
		port = 143
	}
	port, err := setting.Number("port", v["port"], 1, 65535, port)
	if err != nil {
		return nil, err
	}
	a.address = net.JoinHostPort(v["host"], fmt.Sprint(port))
	if v["ca"] != "" {
		a.tls.RootCAs = x509.NewCertPool()
		if !a.tls.RootCAs.AppendCertsFromPEM([]byte(v["ca"])) {
			return nil, &source.FieldError{Field: "ca", Reason: "it is not a certificate in PEM form"}
		}
	}
	g := guard.New(ctx, settings.AllowPrivate)
	if _, err := g.Resolve(ctx, v["host"]); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &source.FieldError{Field: "host", Reason: err.Error()}
	}
	a.dialer = g.Dialer()
	if err := a.withClient(ctx, func(*imapclient.Client) error { return nil }); err != nil {
		return nil, fmt.Errorf("sign in at %s: %w", a.address, err)
	}
	return a, nil
}

// Close implements source.Connector.
func (a *account) Close() error {
	a.sem <- struct{}{}
	defer func() { <-a.sem }()
	a.disconnect()
	return nil
}
