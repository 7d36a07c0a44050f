package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// memory is a store of one delivery.
type memory struct {
	mu       sync.Mutex
	delivery Delivery
	attempts int
	since    time.Time
	next     time.Time
	out      Outcome
	lose     bool // the outcome of an attempt is lost, as when a process dies

	ahead time.Duration // how far the store's clock is ahead of the process's
	asked int           // how often the store's clock was read
}

func (m *memory) Clock(context.Context) (time.Time, error) {
	m.asked++
	return time.Now().Add(m.ahead), nil
}

func (m *memory) ClaimDeliveries(_ context.Context, now, until time.Time, _ Room) ([]Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.out.State == schema.DeliveryDelivered || m.out.State == schema.DeliveryFailed || m.next.After(now) {
		return nil, nil
	}
	m.attempts, m.next = m.attempts+1, until
	return []Claimed{{Tenant: uuid.UUID{1}, Webhook: uuid.UUID{2}, ID: uuid.UUID{3}, Attempt: m.attempts, Since: m.since}}, nil
}

func (m *memory) Delivery(context.Context, Claimed, time.Time) (Delivery, error) {
	if m.delivery.Job == nil {
		return Delivery{}, schema.ErrNotFound
	}
	return m.delivery, nil
}

func (m *memory) SettleDelivery(_ context.Context, _ Claimed, o Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lose {
		m.lose = false
		return errors.New("the process died")
	}
	m.out = o
	if o.State == schema.DeliveryWaiting {
		m.next = o.Next
	}
	return nil
}

func (m *memory) ForgetDeliveries(context.Context, time.Time, int) (int, error) { return 0, nil }

// setClock is a clock that a test sets.
type setClock struct{ at time.Time }

func (c *setClock) now() time.Time { return c.at }

// receiver is a server that verifies deliveries and replies by a script.
type receiver struct {
	*httptest.Server
	secrets [][]byte
	ids     []string
	bodies  []map[string]any
}

func newReceiver(t *testing.T, secrets [][]byte, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{secrets: secrets}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v, %v", q.Method, q.Header, err)
		}
		id := q.Header.Get("Webhook-Id")
		var want []string
		for _, secret := range r.secrets {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(id + "." + q.Header.Get("Webhook-Timestamp") + "." + string(body)))
			want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		if got := q.Header.Get("Webhook-Signature"); got != strings.Join(want, " ") {
			t.Errorf("signed %q, want %q", got, want)
		}
		var payload map[string]any
		if err := json.Unmarshal(body, &payload); err != nil {
			t.Error(err)
		}
		r.ids, r.bodies = append(r.ids, id), append(r.bodies, payload)
		answer(len(r.ids), w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

func jobDelivery(url string, secrets ...[]byte) Delivery {
	return Delivery{Webhook: schema.Webhook{URL: url}, Secrets: secrets, Kind: schema.WebhookQuestionFailed, At: time.Unix(1000, 0),
		Job: &Job{ID: uuid.UUID{4}, Collection: uuid.UUID{5}, State: schema.JobFailed, Reason: &schema.Reason{Code: "quota", Message: "m"}}}
}

func round(t *testing.T, s *Sender) {
	t.Helper()
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSignsAsTheStandardSays uses the example of the Standard Webhooks' own libraries.
func TestSignsAsTheStandardSays(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := sign([][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
	if a, shown := NewSecret(); len(a) != secretBytes || !strings.HasPrefix(shown, "whsec_") {
		t.Errorf("a secret of %d bytes, %s", len(a), shown)
	}
}

func TestAReceiverThatFailsFirstGetsItAgain(t *testing.T) {
	secrets := [][]byte{[]byte("new"), []byte("old")}
	r := newReceiver(t, secrets, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	c := &setClock{time.Unix(10_000, 0)}
	m := &memory{since: c.at, delivery: jobDelivery(r.URL, secrets...)}
	s := New(m, Options{Allow: loopback, PublicURL: "https://sluice.example/", Now: c.now})
	pause := firstPause
	for n := 1; n < 3; n++ {
		round(t, s)
		wait := m.next.Sub(c.at)
		if m.out.State != schema.DeliveryWaiting || m.out.Status != 500 || wait < pause*3/4 || wait > pause*5/4 || !strings.Contains(m.out.Problem, "500") {
			t.Fatalf("attempt %d: %+v, again after %s", n, m.out, wait)
		}
		round(t, s) // too early
		if len(r.ids) != n {
			t.Fatalf("sent %d times", len(r.ids))
		}
		c.at, pause = m.next, 2*pause
	}
	round(t, s)
	if m.out.State != schema.DeliveryDelivered || m.out.Problem != "" || len(r.ids) != 3 || r.ids[0] != r.ids[2] || r.ids[0] != (uuid.UUID{3}).String() {
		t.Errorf("after three attempts %+v under %v", m.out, r.ids)
	}
	want := map[string]any{"type": "question.failed", "timestamp": "1970-01-01T00:16:40Z", "data": map[string]any{
		"tenant_id": uuid.UUID{1}.String(), "job_id": uuid.UUID{4}.String(), "collection_id": uuid.UUID{5}.String(), "state": "failed",
		"reason": map[string]any{"code": "quota", "message": "m"}, "link": "https://sluice.example/v1/jobs/" + uuid.UUID{4}.String()}}
	got, _ := json.Marshal(r.bodies[2])
	if expected, _ := json.Marshal(want); string(got) != string(expected) {
		t.Errorf("sent %s, want %s", got, expected)
	}
}

// TestACrashAfterSendingSendsAgain: the delivery is sent again under the same id, once the claim
// has expired.
func TestACrashAfterSendingSendsAgain(t *testing.T) {
	r := newReceiver(t, [][]byte{nil}, func(int, http.ResponseWriter, *http.Request) {})
	c := &setClock{time.Unix(10_000, 0)}
	m := &memory{since: c.at, delivery: jobDelivery(r.URL, nil), lose: true}
	s := New(m, Options{Allow: loopback, Now: c.now})
	round(t, s)
	round(t, s) // still claimed
	if len(r.ids) != 1 || m.out.State != "" {
		t.Fatalf("sent %d times, %+v", len(r.ids), m.out)
	}
	c.at = c.at.Add(claimTime)
	round(t, s)
	if len(r.ids) != 2 || r.ids[0] != r.ids[1] || m.out.State != schema.DeliveryDelivered {
		t.Errorf("sent under %v, %+v", r.ids, m.out)
	}
}

func TestADeliveryIsGivenUp(t *testing.T) {
	for what, c := range map[string]struct {
		status   int
		attempts int
	}{"never accepted": {http.StatusInternalServerError, maxAttempts}, "gone": {http.StatusGone, 1}} {
		r := newReceiver(t, [][]byte{nil}, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
		now := &setClock{time.Unix(10_000, 0)}
		m := &memory{since: now.at, delivery: jobDelivery(r.URL, nil)}
		s := New(m, Options{Allow: loopback, Now: now.now})
		for m.out.State != schema.DeliveryFailed && len(r.ids) <= maxAttempts {
			round(t, s)
			now.at = m.next
		}
		// The pauses may add up to a day before the last attempt.
		if n := len(r.ids); m.out.State != schema.DeliveryFailed || n > c.attempts || n < c.attempts-1 || now.at.Sub(m.since) > longest+claimTime {
			t.Errorf("%s: %d attempts over %s, %+v", what, n, now.at.Sub(m.since), m.out)
		}
	}
	m := &memory{}
	round(t, New(m, Options{}))
	if m.out.State != schema.DeliveryFailed || m.out.Problem != "the object of the event no longer exists" {
		t.Errorf("what is gone: %+v", m.out)
	}
}

// TestTimesAreTheStores: a process whose wall clock is three hours off delays no delivery.
func TestTimesAreTheStores(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		r := newReceiver(t, [][]byte{nil}, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		m := &memory{since: time.Now().Add(ahead), next: time.Now().Add(ahead), delivery: jobDelivery(r.URL, nil), ahead: ahead}
		began := time.Now()
		s := New(m, Options{Allow: loopback})
		round(t, s)
		round(t, s)
		earliest, latest := began.Add(ahead), time.Now().Add(ahead)
		if m.out.State != schema.DeliveryWaiting || m.out.At.Before(earliest) || m.out.At.After(latest) {
			t.Errorf("%s ahead: it was tried at %s, want one of %s to %s: %+v", ahead, m.out.At, earliest, latest, m.out)
		}
		if m.next.Before(earliest) || m.next.After(latest.Add(2*firstPause)) {
			t.Errorf("%s ahead: the next attempt is at %s, after one at %s", ahead, m.next, m.out.At)
		}
		if m.asked != 1 {
			t.Errorf("%s ahead: the store's clock was read %d times", ahead, m.asked)
		}
	}
}

func TestRedirectsAreNotFollowedAndRepliesAreBounded(t *testing.T) {
	inner := newReceiver(t, nil, func(int, http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	r := newReceiver(t, [][]byte{nil}, func(_ int, w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, inner.URL, http.StatusTemporaryRedirect)
	})
	m := &memory{since: time.Now(), delivery: jobDelivery(r.URL, nil)}
	round(t, New(m, Options{Allow: loopback}))
	if m.out.State != schema.DeliveryWaiting || m.out.Status != 307 || !strings.Contains(m.out.Problem, "redirects are not followed") {
		t.Errorf("got %+v", m.out)
	}
	endless := newReceiver(t, [][]byte{nil}, func(_ int, w http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	m = &memory{since: time.Now(), delivery: jobDelivery(endless.URL, nil)}
	round(t, New(m, Options{Allow: loopback}))
	if m.out.State != schema.DeliveryDelivered {
		t.Errorf("an endless reply: %+v", m.out)
	}
}

// TestAPrivateAddressIsRefused: also behind a name, which is resolved first.
func TestAPrivateAddressIsRefused(t *testing.T) {
	r := newReceiver(t, nil, func(int, http.ResponseWriter, *http.Request) { t.Error("a private address was sent to") })
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		m := &memory{since: time.Now(), delivery: jobDelivery("http://"+host+":"+port, nil)}
		round(t, New(m, Options{}))
		if m.out.State != schema.DeliveryFailed || !strings.HasPrefix(m.out.Problem, "the address is not public") || m.out.Status != 0 {
			t.Errorf("%s: %+v", host, m.out)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700:4700::1111": true, "93.184.216.34": true, "::ffff:8.8.8.8": true,
		"10.0.0.1": false, "172.16.5.4": false, "192.168.1.1": false, "127.0.0.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.127.255.254": false,
		"0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false, "240.0.0.1": false, "::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false,
		// Clouds' own addresses: metadata, agents and private services.
		"168.63.129.16": false, "168.63.129.17": true, "::ffff:168.63.129.16": false, "64:ff9b::a83f:8110": false, "100.100.100.200": false, "169.254.0.23": false,
		"169.254.170.2": false, "fd00:ec2::254": false, "fd20:ce::254": false, "199.36.153.4": false, "199.36.153.11": false, "161.26.0.10": false, "166.9.0.1": false,
		"fd00::1": false, "ff02::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "2001::1": false, "::10.0.0.1": false,
		// IANA's registries of special addresses.
		"192.0.0.1": false, "192.0.2.1": false, "192.31.196.1": false, "192.52.193.1": false, "192.88.99.1": false, "192.175.48.1": false,
		"198.51.100.1": false, "203.0.113.1": false, "64:ff9b:1::1": false, "100::1": false, "2001:db8::1": false, "2620:4f:8000::1": false,
		"3fff::1": false, "4000::1": false, "5f00::1": false, "fec0::1": false,
	} {
		if got := public(netip.MustParseAddr(text), guardian(nil)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
	allowed, err := schema.ParseRanges("f", []string{"10.1.0.0/16", " fd00::/8 "})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd12::1": true} {
		if got := public(netip.MustParseAddr(text), guardian(allowed)); got != want {
			t.Errorf("%s with allowed ranges: %v, want %v", text, got, want)
		}
	}
	if _, err := schema.ParseRanges("f", []string{"10.1.0.0"}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("no range gave %v", err)
	}
}
