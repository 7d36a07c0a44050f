package mailbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"

	"github.com/sluice-rag/sluice/internal/source"
)

const (
	// readTimeout is how long a server may send nothing.
	readTimeout = time.Minute
	// maxCallBytes is the maximum number of bytes that a server may send in one call, besides the
	// content of a message.
	maxCallBytes = 64 << 20
)

// limitedConn is a connection that fails if the server is silent for too long or sends too much.
type limitedConn struct {
	net.Conn
	remaining atomic.Int64
}

// Read implements net.Conn.
func (l *limitedConn) Read(p []byte) (int, error) {
	_ = l.Conn.SetReadDeadline(time.Now().Add(readTimeout))
	n, err := l.Conn.Read(p)
	if l.remaining.Add(-int64(n)) < 0 {
		return 0, errors.New("the server sends more than was asked for")
	}
	return n, err
}

// SetReadDeadline implements net.Conn. It does nothing: the library sets deadlines for whole
// messages, or of half an hour.
func (l *limitedConn) SetReadDeadline(time.Time) error { return nil }

// withClient calls f with a signed-in connection, one caller at a time. When ctx ends, the
// connection is closed. If an existing connection turns out to be dead, f is called again with a
// new one.
func (a *account) withClient(ctx context.Context, f func(*imapclient.Client) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case a.sem <- struct{}{}:
		defer func() { <-a.sem }()
	case <-ctx.Done():
		return ctx.Err()
	}
	reused := a.client != nil
	err := a.withClientOnce(ctx, f)
	if reused && a.client == nil && ctx.Err() == nil {
		err = a.withClientOnce(ctx, f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failure(err)
}

// withClientOnce calls f, and closes the connection if it cannot be used any more.
func (a *account) withClientOnce(ctx context.Context, f func(*imapclient.Client) error) error {
	if a.client == nil {
		if err := a.connect(ctx); err != nil {
			a.disconnect()
			return err
		}
	}
	a.conn.remaining.Store(a.maxBytes + maxCallBytes)
	conn := a.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := f(a.client)
	if !stop() || !reusable(err) {
		a.disconnect()
	}
	return err
}

// reusable reports whether the connection can be used after a call.
func reusable(err error) bool {
	var imapErr *imap.Error
	var item *source.ItemError
	var field *source.FieldError
	return err == nil || errors.As(err, &imapErr) && imapErr.Type != imap.StatusResponseTypeBye || errors.Is(err, source.ErrGone) ||
		errors.Is(err, source.ErrCursorExpired) || errors.As(err, &item) || errors.As(err, &field)
}

// disconnect closes the connection.
func (a *account) disconnect() {
	if a.client != nil {
		_ = a.client.Close() // it returns an error if the server has closed the connection
	}
	a.client, a.conn = nil, nil
}

// connect connects and signs in.
func (a *account) connect(ctx context.Context) error {
	netConn, err := a.dialer.DialContext(ctx, "tcp", a.address)
	if err != nil {
		return err
	}
	a.conn = &limitedConn{Conn: netConn}
	a.conn.remaining.Store(maxCallBytes)
	conn := a.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	options := &imapclient.Options{TLSConfig: a.tls}
	switch a.security {
	case "none":
		a.client = imapclient.New(a.conn, options)
	case "starttls":
		a.client, err = imapclient.NewStartTLS(a.conn, options)
	default:
		secured := tls.Client(a.conn, a.tls)
		if err = secured.HandshakeContext(ctx); err == nil {
			a.client = imapclient.New(secured, options)
		}
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	if err := a.client.WaitGreeting(); err != nil {
		return err
	}
	return a.signIn()
}

// loginError is the error of a server that rejects the credentials.
type loginError struct{ error }

func (r loginError) Unwrap() error { return r.error }

func (a *account) signIn() error {
	if a.client.State() == imap.ConnStateAuthenticated {
		return nil
	}
	var err error
	if a.client.Caps().Has(imap.AuthCap(sasl.Plain)) {
		err = a.client.Authenticate(sasl.NewPlainClient("", a.user, a.password))
	} else {
		err = a.client.Login(a.user, a.password).Wait()
	}
	var imapErr *imap.Error
	if errors.As(err, &imapErr) && imapErr.Type == imap.StatusResponseTypeNo {
		return loginError{err}
	}
	return err
}

// failure converts an error of the library.
func failure(err error) error {
	var imapErr *imap.Error
	var loginErr loginError
	var network *net.OpError
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &imapErr):
		return responseError(imapErr, errors.As(err, &loginErr), err)
	case errors.As(err, &header):
		return &source.FieldError{Field: "security", Reason: "the server doesn't speak TLS at this port; try starttls or another port"}
	case errors.As(err, &authority):
		return &source.FieldError{Field: "ca", Reason: "the server's certificate is from an unknown authority; set ca to this authority's certificate"}
	case errors.As(err, &host):
		return &source.FieldError{Field: "host", Reason: host.Error()}
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the server does not answer: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("the server ended the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// responseError converts an error reply (RFC 9051, 7.1; RFC 5530).
func responseError(imapErr *imap.Error, signingIn bool, err error) error {
	switch imapErr.Code {
	case imap.ResponseCodeLimit, imap.ResponseCodeOverQuota:
		return &source.RateLimitError{}
	case imap.ResponseCodeUnavailable, imap.ResponseCodeInUse, imap.ResponseCodeServerBug:
		return err
	case imap.ResponseCodeAuthenticationFailed, imap.ResponseCodeAuthorizationFailed, imap.ResponseCodeExpired,
		imap.ResponseCodePrivacyRequired, imap.ResponseCodeNoPerm:
		return fmt.Errorf("%w: %w", source.ErrRefused, err)
	}
	switch {
	case strings.Contains(strings.ToLower(imapErr.Text), "too many"): // connections, log-ins, requests
		return &source.RateLimitError{}
	case signingIn:
		return fmt.Errorf("%w: %w", source.ErrRefused, err)
	}
	return err
}
