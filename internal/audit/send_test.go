package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// log keeps in memory the entries and how far they were sent: internal/store tests the real store.
type log struct {
	entries map[uuid.UUID]int64
	sent    map[uuid.UUID]int64
}

func (l *log) UnsentAudit(context.Context) (out []schema.AuditBacklog, err error) {
	for tenant, number := range l.entries {
		if number > l.sent[tenant] {
			out = append(out, schema.AuditBacklog{Tenant: tenant, Chain: schema.AuditReads, Sent: l.sent[tenant]})
		}
	}
	return out, nil
}

func (l *log) AuditLines(_ context.Context, tenant uuid.UUID, chain schema.AuditChain, after int64, limit int) (out []schema.AuditLine, err error) {
	for n := after + 1; n <= l.entries[tenant] && len(out) < limit; n++ {
		out = append(out, schema.AuditLine{Chain: chain, Tenant: tenant, Number: n, Read: &schema.AuditRead{At: time.Unix(n, 0), Action: "search", Query: "what?\nthat"}})
	}
	return out, nil
}

func (l *log) AuditSent(_ context.Context, tenant uuid.UUID, _ schema.AuditChain, number int64) error {
	l.sent[tenant] = number
	return nil
}

// syslogServer reads messages like a syslog server. A broken one resets its connections.
type syslogServer struct {
	net.Listener
	running sync.WaitGroup

	mu       sync.Mutex
	messages []string
	broken   bool
}

func newSyslogServer(t *testing.T) *syslogServer {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &syslogServer{Listener: l}
	s.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.read(t, conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.running.Wait()
	})
	return s
}

func (s *syslogServer) read(t *testing.T, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a test's
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		_ = conn.(*net.TCPConn).SetLinger(0)
		return
	}
	for r := bufio.NewReader(conn); ; {
		length, err := r.ReadString(' ')
		if errors.Is(err, io.EOF) && length == "" {
			return
		}
		n, wrong := strconv.Atoi(strings.TrimSuffix(length, " "))
		message := make([]byte, max(n, 0))
		if _, err := io.ReadFull(r, message); err != nil || wrong != nil {
			t.Errorf("a message is led by %q: %v", length, errors.Join(err, wrong))
			return
		}
		s.messages = append(s.messages, string(message))
	}
}

func (s *syslogServer) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages
}

func TestTheLogIsSentToSyslog(t *testing.T) {
	server, tenant := newSyslogServer(t), uuid.New()
	l := &log{entries: map[uuid.UUID]int64{tenant: sendMost + 3}, sent: map[uuid.UUID]int64{tenant: 1}}
	s, err := NewSender(l, "syslog://"+server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	server.broken = true
	server.mu.Unlock()
	if err := s.SendAll(t.Context()); err == nil || l.sent[tenant] != 1 {
		t.Errorf("a server that reads nothing is said to have %d: %v", l.sent[tenant], err)
	}
	server.mu.Lock()
	server.broken = false
	server.mu.Unlock()
	if err := s.SendAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages := server.got()
	if len(messages) != sendMost+2 || l.sent[tenant] != sendMost+3 {
		t.Fatalf("%d messages, sent up to %d", len(messages), l.sent[tenant])
	}
	form := regexp.MustCompile(`^<110>1 1970-01-01T00:00:02\.000000Z \S+ sluice - reads - (\{.*\})$`)
	found := form.FindStringSubmatch(messages[0])
	var line schema.AuditLine
	if found == nil || json.Unmarshal([]byte(found[1]), &line) != nil || line.Number != 2 || line.Read.Query != "what?\nthat" {
		t.Errorf("the first message is %q", messages[0])
	}
	if err := s.SendAll(t.Context()); err != nil || len(server.got()) != len(messages) {
		t.Errorf("%d messages when there is nothing to send: %v", len(server.got()), err)
	}
}

func TestTheLogIsSentToAFile(t *testing.T) {
	tenant, path := uuid.New(), filepath.Join(t.TempDir(), "audit.jsonl")
	l := &log{entries: map[uuid.UUID]int64{tenant: 2}, sent: map[uuid.UUID]int64{}}
	s, err := NewSender(l, "file://"+path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{2, 5} {
		l.entries[tenant] = n
		if err := s.SendAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 5 || !strings.Contains(lines[4], `"number":5`) {
		t.Errorf("the file has %d lines:\n%s", len(lines), data)
	}
	missing, err := NewSender(l, "file://"+filepath.Join(t.TempDir(), "no", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	l.entries[tenant]++
	if err := missing.SendAll(t.Context()); !errors.Is(err, os.ErrNotExist) || l.sent[tenant] != 5 {
		t.Errorf("to no folder: %v, sent up to %d", err, l.sent[tenant])
	}
}

func TestAddressesOfSendersAreChecked(t *testing.T) {
	for _, address := range []string{"file://relative/path", "file:x", "syslog://host", "syslog://:514", "syslog://host:514/path", "udp://host:514", "/var/log/x", "::"} {
		if _, err := NewSender(nil, address); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "SLUICE_SEND_AUDIT") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := NewSender(nil, "syslogs://logs.example:6514"); err != nil {
		t.Error(err)
	}
}
