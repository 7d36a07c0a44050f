package audit

// This file sends the log to another system, in the chains' order and at least once: an entry is
// marked as sent after the other system has received it.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// sendMost is the most entries that are sent at once.
	sendMost = 1000
	// sendTime bounds the time of sending them.
	sendTime = 30 * time.Second
	// priority is the facility "log audit" (13) and the severity "informational" (6) of RFC 5424.
	priority = 13*8 + 6
)

// Unsent provides the entries that are still to be sent.
type Unsent interface {
	UnsentAudit(ctx context.Context) ([]schema.AuditBacklog, error)
	AuditLines(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) ([]schema.AuditLine, error)
	// AuditSent records that a chain was sent up to the entry with number.
	AuditSent(ctx context.Context, tenant uuid.UUID, chain schema.AuditChain, number int64) error
}

// Sender sends entries to a file or a syslog server.
type Sender struct {
	from Unsent
	send func(ctx context.Context, lines []schema.AuditLine) error
}

// NewSender returns a Sender to an address: file:///path, syslog://host:port, or
// syslogs://host:port, with TLS.
func NewSender(from Unsent, address string) (*Sender, error) {
	u, err := url.Parse(address)
	wrong := func(problem string) error {
		return schema.Invalid("SLUICE_SEND_AUDIT", "%q: %s; needs file:///path, syslog://host:port or syslogs://host:port", address, problem)
	}
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, wrong("is no such address")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, wrong("has no absolute path")
		}
		return &Sender{from, func(_ context.Context, lines []schema.AuditLine) error { return appendTo(u.Path, lines) }}, nil
	case "syslog", "syslogs":
		if u.Hostname() == "" || u.Port() == "" || u.Path != "" {
			return nil, wrong("has no host with a port")
		}
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "-"
		}
		s := syslog{address: u.Host, host: host}
		if u.Scheme == "syslogs" {
			s.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		}
		return &Sender{from, s.send}, nil
	}
	return nil, wrong("has another scheme")
}

// SendAll sends all entries that were not sent yet. It stops at the first failure, since all chains
// go to the same address.
func (s *Sender) SendAll(ctx context.Context) error {
	chains, err := s.from.UnsentAudit(ctx)
	if err != nil {
		return err
	}
	for _, c := range chains {
		for after := c.Sent; ; {
			lines, err := s.from.AuditLines(ctx, c.Tenant, c.Chain, after, sendMost)
			if err != nil {
				return err
			}
			if len(lines) == 0 {
				break
			}
			if err := s.sendSoon(ctx, lines); err != nil {
				return fmt.Errorf("send the audit log of tenant %s: %w", c.Tenant, err)
			}
			after = lines[len(lines)-1].Number
			if err := s.from.AuditSent(ctx, c.Tenant, c.Chain, after); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Sender) sendSoon(ctx context.Context, lines []schema.AuditLine) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return s.send(ctx, lines)
}

// appendTo appends lines to a file, all or none of them, and syncs the file to disk.
func appendTo(path string, lines []schema.AuditLine) (err error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return fmt.Errorf("encode an entry: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the file's end: %w", err)
	}
	if _, err = f.Write(text.Bytes()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write to the file: %w", err), f.Truncate(before))
	}
	return nil
}

// syslog sends messages of RFC 5424 over TCP, each preceded by its length in bytes (RFC 6587), or
// over TLS (RFC 5425).
type syslog struct {
	address, host string
	tls           *tls.Config
}

// send opens a connection for the lines. The server has read all of them when it closes its side
// after ours.
func (s syslog) send(ctx context.Context, lines []schema.AuditLine) (err error) {
	var text bytes.Buffer
	for _, l := range lines {
		message, err := s.message(l)
		if err != nil {
			return err
		}
		text.WriteString(strconv.Itoa(len(message)) + " ")
		text.Write(message)
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server %s: %w", s.address, err)
	}
	defer conn.Close() //nolint:errcheck // all is said, or has failed
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write to the syslog server %s: %w", s.address, err)
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, conn)
	}
	if err != nil {
		return fmt.Errorf("wait until the syslog server %s has read all: %w", s.address, err)
	}
	return nil
}

func (s syslog) dial(ctx context.Context) (net.Conn, error) {
	if s.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	}
	return (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.address)
}

// message formats an entry: the message id is its chain, the time is that of the change or read,
// and the text is the line of an export.
func (s syslog) message(l schema.AuditLine) ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode an entry: %w", err)
	}
	at := time.Time{}
	switch {
	case l.Read != nil:
		at = l.Read.At
	case l.Change != nil:
		at = l.Change.At
	}
	return append(fmt.Appendf(nil, "<%d>1 %s %s sluice - %s - ", priority, at.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, l.Chain), text...), nil
}
