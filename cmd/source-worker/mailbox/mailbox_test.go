package mailbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

// testServer is an IMAP server with the mailboxes of one user.
type testServer struct {
	address string
	ca      string
	tls     *tls.Config // of its clients
	user    *imapmemserver.User
}

// newTestServer starts a server that uses TLS from the start of a connection, or after STARTTLS.
func newTestServer(t testing.TB, fromStart bool) *testServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	b := &testServer{ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})),
		user: imapmemserver.NewUser("reader", "secret")}
	memory := imapmemserver.New()
	memory.AddUser(b.user)
	if err := b.user.Create("INBOX", nil); err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	server := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return memory.NewSession(), nil, nil
		},
		Caps: imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapUIDPlus: {}}, TLSConfig: config, Logger: log.New(io.Discard, "", 0),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = listener.Addr().String()
	listener = ignoreWriteErrors{listener}
	b.tls = &tls.Config{InsecureSkipVerify: true}
	if fromStart {
		listener = tls.NewListener(listener, config)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return b
}

// ignoreWriteErrors accepts connections on which writing never fails. The server notices a
// disconnected client when it reads. If it cannot write the content of a message, it keeps a lock
// of its connection forever.
type ignoreWriteErrors struct{ net.Listener }

func (l ignoreWriteErrors) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return ignoreWriteErrorsConn{conn}, err
}

type ignoreWriteErrorsConn struct{ net.Conn }

func (c ignoreWriteErrorsConn) Write(p []byte) (int, error) {
	_, _ = c.Conn.Write(p)
	return len(p), nil
}

// client returns a signed-in client that can change mailboxes.
func (b *testServer) client(t testing.TB) *imapclient.Client {
	t.Helper()
	c, err := imapclient.DialTLS(b.address, &imapclient.Options{TLSConfig: b.tls})
	if err == nil {
		err = c.Login("reader", "secret").Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mailboxOf returns the mailbox and the subject of a file of the test suite.
func mailboxOf(file string) (mailbox, subject string) {
	dir, name := path.Split(file)
	if dir == "" {
		return "INBOX", name
	}
	return strings.TrimSuffix(dir, "/"), name
}

func (b *testServer) put(t testing.TB, file string, content []byte) {
	t.Helper()
	b.remove(t, file)
	mailbox, subject := mailboxOf(file)
	_ = b.user.Create(mailbox, nil) // it may exist
	message := fmt.Appendf(nil, "From: a@example.org\r\nSubject: %s\r\nX-File: %x\r\n\r\n%s", mime.QEncoding.Encode("utf-8", subject), file, content)
	if _, err := b.user.Append(mailbox, literal{bytes.NewReader(message)}, &imap.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

type literal struct{ *bytes.Reader }

func (b *testServer) remove(t testing.TB, file string) {
	t.Helper()
	mailbox, _ := mailboxOf(file)
	c := b.client(t)
	defer c.Close()
	if _, err := c.Select(mailbox, nil).Wait(); err != nil {
		return // there is no such mailbox yet
	}
	found, err := c.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "X-File", Value: fmt.Sprintf("%x", file)}}}, nil).Wait()
	if err != nil {
		t.Fatal(err)
	}
	if len(found.AllUIDs()) == 0 {
		return
	}
	uids := imap.UIDSetNum(found.AllUIDs()...)
	if err := c.Store(uids, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagDeleted}, Silent: true}, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.UIDExpunge(uids).Close(); err != nil {
		t.Fatal(err)
	}
}

var numbered = regexp.MustCompile(`^(?:INBOX/|(.*/))\d+ (.*)\.eml$`)

func (b *testServer) settings(host, port string) source.Settings {
	return source.Settings{AllowPrivate: true, Values: map[string]string{"host": host, "port": port, "ca": b.ca, "user": "reader", "password": "secret"}}
}

func (b *testServer) direct(t testing.TB) source.Settings {
	t.Helper()
	host, port, err := net.SplitHostPort(b.address)
	if err != nil {
		t.Fatal(err)
	}
	return b.settings(host, port)
}

func TestIMAP(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		b := newTestServer(t, true)
		wire := sourcetest.NewTCPProxy(t, b.address)
		return sourcetest.Fixture{
			Driver: driver(4), Settings: b.settings(wire.Address()), TCPProxy: wire, Put: b.put, Remove: b.remove,
			WrongCredentials: func(v map[string]string) { v["password"] = "wrong" },
			Name:             func(item source.Item) string { return numbered.ReplaceAllString(item.Path, "$1$2") },
			Same: func(put, fetched []byte) bool {
				_, content, _ := bytes.Cut(fetched, []byte("\r\n\r\n"))
				return bytes.Equal(put, content)
			},
		}
	})
}

func opened(t *testing.T, settings source.Settings) source.Connector {
	t.Helper()
	c, err := driver(2).Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMessagesStayUnread(t *testing.T) {
	b := newTestServer(t, true)
	b.put(t, "a.txt", []byte("A text."))
	c := opened(t, b.direct(t))
	page, err := c.List(t.Context(), "")
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("listed are %+v, %v", page, err)
	}
	down, err := c.Fetch(t.Context(), page.Items[0])
	if err != nil || down.MediaType != "message/rfc822" {
		t.Fatalf("fetched is %+v, %v", down, err)
	}
	unseen, err := b.user.Status("INBOX", &imap.StatusOptions{NumUnseen: true})
	if err != nil || *unseen.NumUnseen != 1 {
		t.Errorf("%d messages are unread, want 1 (%v)", *unseen.NumUnseen, err)
	}
}

func TestNewUIDValidityMakesNewItems(t *testing.T) {
	b := newTestServer(t, true)
	for i := range 3 {
		b.put(t, fmt.Sprintf("box/%d.txt", i), []byte("A text."))
	}
	c := opened(t, b.direct(t))
	first, err := c.List(t.Context(), "")
	if err != nil || len(first.Items) != 2 || first.Next == "" {
		t.Fatalf("listed are %+v, %v", first, err)
	}
	if err := b.user.Delete("box"); err != nil {
		t.Fatal(err)
	}
	b.put(t, "box/0.txt", []byte("Another text."))
	if _, err := c.List(t.Context(), first.Next); !errors.Is(err, source.ErrCursorExpired) {
		t.Errorf("going on in a mailbox that was made anew gives %v, want ErrCursorExpired", err)
	}
	if _, err := c.Fetch(t.Context(), first.Items[0]); !errors.Is(err, source.ErrGone) {
		t.Errorf("fetching a message of the mailbox that was there before gives %v, want ErrGone", err)
	}
	second, err := c.List(t.Context(), "")
	if err != nil || len(second.Items) != 1 || second.Items[0].ID == first.Items[0].ID {
		t.Errorf("the new mailbox has %+v, %v; the old one had %+v", second, err, first.Items)
	}
}

func TestMessagesMarkedAsDeletedAreGone(t *testing.T) {
	b := newTestServer(t, true)
	b.put(t, "a.txt", []byte("A text."))
	c := opened(t, b.direct(t))
	page, err := c.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	other := b.client(t)
	defer other.Close()
	if _, err := other.Select("INBOX", nil).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := other.Store(imap.SeqSetNum(1), &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagDeleted}}, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := c.List(t.Context(), ""); err != nil || len(again.Items) != 0 {
		t.Errorf("listed are %+v, %v", again, err)
	}
	if _, err := c.Fetch(t.Context(), page.Items[0]); !errors.Is(err, source.ErrGone) {
		t.Errorf("fetching gives %v, want ErrGone", err)
	}
}

func TestOneMailboxAndThoseBelow(t *testing.T) {
	b := newTestServer(t, true)
	for _, file := range []string{"a.txt", "work/b.txt", "work/2026/c.txt", "workshop/d.txt"} {
		b.put(t, file, []byte("A text."))
	}
	settings := b.direct(t)
	settings.Values["mailbox"] = "work"
	page, err := driver(10).Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	found, err := page.List(t.Context(), "")
	var paths []string
	for _, item := range found.Items {
		paths = append(paths, item.Path)
	}
	if want := []string{"work/1 b.txt.eml", "work/2026/1 c.txt.eml"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("listed are %q, want %q (%v)", paths, want, err)
	}
	settings.Values["mailbox"] = "elsewhere"
	var field *source.FieldError
	if _, err := opened(t, settings).List(t.Context(), ""); !errors.As(err, &field) || field.Field != "mailbox" {
		t.Errorf("a mailbox that isn't there gives %v", err)
	}
}

func TestLargeMessagesAreRefused(t *testing.T) {
	b := newTestServer(t, true)
	b.put(t, "a.txt", bytes.Repeat([]byte("long "), 1000))
	settings := b.direct(t)
	settings.MaxItemBytes = 1000
	c := opened(t, settings)
	page, err := c.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var item *source.ItemError
	if _, err := c.Fetch(t.Context(), page.Items[0]); !errors.As(err, &item) {
		t.Errorf("a message of 5,000 bytes, where 1,000 are allowed, gives %v", err)
	}
}

func TestSecurity(t *testing.T) {
	open := func(b *testServer, change map[string]string) error {
		settings := b.direct(t)
		for name, value := range change {
			settings.Values[name] = value
		}
		c, err := Driver().Open(t.Context(), settings)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	secured, starts := newTestServer(t, true), newTestServer(t, false)
	if err := open(starts, map[string]string{"security": "starttls"}); err != nil {
		t.Errorf("STARTTLS gives %v", err)
	}
	var field *source.FieldError
	if err := open(starts, nil); !errors.As(err, &field) || field.Field != "security" {
		t.Errorf("a server that speaks no TLS at first gives %v", err)
	}
	if err := open(secured, map[string]string{"ca": ""}); !errors.As(err, &field) || field.Field != "ca" {
		t.Errorf("a certificate from an unknown authority gives %v", err)
	}
	if err := open(secured, map[string]string{"host": "localhost"}); !errors.As(err, &field) || field.Field != "host" {
		t.Errorf("a certificate of another host gives %v", err)
	}
	// The server accepts no password in clear text.
	if err := open(starts, map[string]string{"security": "none"}); !errors.Is(err, source.ErrRefused) {
		t.Errorf("a password in clear text gives %v", err)
	}
}

func TestAnswers(t *testing.T) {
	var limit *source.RateLimitError
	for _, c := range []struct {
		answer    imap.Error
		signingIn bool
		want      func(error) bool
	}{
		{imap.Error{Type: "NO", Code: imap.ResponseCodeLimit}, false, func(err error) bool { return errors.As(err, &limit) }},
		{imap.Error{Type: "BYE", Text: "Too many simultaneous connections"}, false, func(err error) bool { return errors.As(err, &limit) }},
		{imap.Error{Type: "NO", Code: imap.ResponseCodeUnavailable}, true, func(err error) bool { return !errors.Is(err, source.ErrRefused) }},
		{imap.Error{Type: "NO", Text: "Invalid credentials"}, true, func(err error) bool { return errors.Is(err, source.ErrRefused) }},
		{imap.Error{Type: "NO", Code: imap.ResponseCodeExpired}, false, func(err error) bool { return errors.Is(err, source.ErrRefused) }},
	} {
		err := error(&c.answer)
		if c.signingIn {
			err = loginError{err}
		}
		if got := failure(err); !c.want(got) {
			t.Errorf("%+v means %v", c.answer, got)
		}
	}
}

func TestTitles(t *testing.T) {
	for header, want := range map[string]string{
		"": "(no subject)", "Subject: =?utf-8?q?K=C3=BCndigung?=\r\n\r\n": "Kündigung", "Subject: =?iso-8859-1?q?K=FCndigung?=\r\n": "Kündigung",
		"Subject: a/b\\c\r\n\r\n": "a_b_c", "Subject: ..\r\n\r\n": "_", "Subject: =?nonsense?q?x?=\r\n\r\n": "=?nonsense?q?x?=", "no header": "(no subject)",
	} {
		if got := title([]byte(header)); got != want {
			t.Errorf("%q has the title %q, want %q", header, got, want)
		}
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "169.254.169.254", "::1"} {
		ctx, cancel := context.WithCancel(t.Context())
		var field *source.FieldError
		_, err := Driver().Open(ctx, source.Settings{Values: map[string]string{"host": host, "user": "u", "password": "p"}})
		if cancel(); !errors.As(err, &field) || field.Field != "host" {
			t.Errorf("%s gives %v", host, err)
		}
	}
}
