package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

const (
	connectTime = 5 * time.Second
	sendTime    = 15 * time.Second // one attempt in all
	claimTime   = time.Minute      // after it the claim's process counts as dead
	maxReply    = 64 << 10         // bytes of a reply that are read
	keepAlive   = 10 * time.Second // of an idle connection

	// After a failed attempt the next one follows after 20 seconds, and then after twice as long
	// each time, plus or minus a quarter: 13 attempts within a day.
	maxAttempts = 13
	firstPause  = 20 * time.Second
	longest     = 24 * time.Hour

	// reading bounds the deliveries that are read or recorded at once, because questions need
	// connections to the database, too.
	reading = 4

	keepOver = 30 * 24 * time.Hour // how long finished deliveries are kept for display
	looking  = time.Second         // between two looks for due deliveries
)

// Options of a Sender.
type Options struct {
	// Allow are address ranges that may be sent to although they are not public.
	Allow []netip.Prefix
	// PublicURL is where tenants reach the API, for links; empty: links are paths.
	PublicURL string
	// Now returns the time; nil: the store's clock is used.
	Now func() time.Time
}

// Sender sends due deliveries. Any number of processes may have one.
type Sender struct {
	store   Store
	options Options
	client  *http.Client
	reading chan struct{}
	clock   clock
	forgot  time.Time // when old deliveries were last deleted
	*endpoints
}

// New returns a Sender.
func New(store Store, o Options) *Sender {
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	return &Sender{store: store, options: o, clock: clock{read: store.Clock, set: o.Now}, reading: make(chan struct{}, reading), endpoints: newEndpoints(), client: &http.Client{
		Timeout: sendTime,
		// No proxy and no redirects: the dialled address is the one that was checked.
		Transport: &http.Transport{DialContext: dialer(o.Allow).DialContext, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxReply,
			MaxIdleConns: atOnce, MaxIdleConnsPerHost: perEndpoint, IdleConnTimeout: keepAlive, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Run sends due deliveries until fetch ends, and then finishes those in progress while work lasts.
// It looks for more when attempts have ended, and every second.
func (s *Sender) Run(fetch, work context.Context) error {
	defer s.client.CloseIdleConnections()
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(looking)
	defer ticker.Stop()
	for {
		if _, err := s.look(work, &sending); err != nil && fetch.Err() == nil {
			slog.Warn("cannot look up webhook deliveries that are due; trying again", "error", err)
		}
		select {
		case <-fetch.Done():
			return nil
		case <-s.wake:
		case <-ticker.C:
		}
	}
}

// Round sends all due deliveries and waits until they are sent.
func (s *Sender) Round(ctx context.Context) error {
	defer s.client.CloseIdleConnections()
	for {
		var sending sync.WaitGroup
		n, err := s.look(ctx, &sending)
		sending.Wait()
		if n == 0 || err != nil {
			return err
		}
	}
}

// look starts sending as many due deliveries as there is room for, and returns their number.
func (s *Sender) look(ctx context.Context, sending *sync.WaitGroup) (int, error) {
	now, err := s.clock.look(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the store's clock: %w", err)
	}
	if now.Sub(s.forgot) > time.Hour {
		if _, err := s.store.ForgetDeliveries(ctx, now.Add(-keepOver), 10_000); err != nil {
			return 0, fmt.Errorf("forget old deliveries: %w", err)
		}
		s.forgot = now
	}
	room := s.room(now)
	if room.Limit == 0 {
		return 0, nil
	}
	due, err := s.store.ClaimDeliveries(ctx, now, now.Add(claimTime), room)
	if err != nil {
		return 0, fmt.Errorf("claim deliveries: %w", err)
	}
	s.endpoints.begin(due, room, now)
	for _, c := range due {
		sending.Go(func() {
			accepted := false
			defer func() { s.end(c.Webhook, accepted) }()
			accepted = s.deliver(ctx, c)
		})
	}
	return len(due), nil
}

// limitReads runs fn when fewer than reading others read or write.
func (s *Sender) limitReads(ctx context.Context, fn func() error) error {
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.reading }()
	return fn()
}

// deliver makes one attempt and records its outcome. If that fails the claim expires, and the
// delivery is sent again. It reports whether the receiver accepted.
func (s *Sender) deliver(ctx context.Context, c Claimed) bool {
	out, err := s.attempt(ctx, c)
	if err == nil {
		err = s.limitReads(ctx, func() error { return s.store.SettleDelivery(ctx, c, out) })
	}
	log := slog.With("tenant", c.Tenant, "webhook", c.Webhook, "delivery", c.ID, "attempt", c.Attempt)
	switch {
	case err != nil:
		log.WarnContext(ctx, "cannot record the outcome of a webhook delivery; it will be sent again", "error", err)
	case out.State == schema.DeliveryFailed:
		log.WarnContext(ctx, "gave up a webhook delivery", "problem", out.Problem)
	}
	return err == nil && out.State == schema.DeliveryDelivered
}

// attempt reads and sends a delivery. An error is on this side: the outcome of the attempt is not
// known.
func (s *Sender) attempt(ctx context.Context, c Claimed) (Outcome, error) {
	now := s.clock.now()
	var d Delivery
	err := s.limitReads(ctx, func() (err error) {
		d, err = s.store.Delivery(ctx, c, now)
		return err
	})
	if errors.Is(err, schema.ErrNotFound) {
		return Outcome{State: schema.DeliveryFailed, Problem: "the object of the event no longer exists", At: now}, nil
	}
	if err != nil {
		return Outcome{}, err
	}
	body, err := s.body(c.Tenant, d)
	if err != nil {
		return Outcome{}, err
	}
	status, err := s.send(ctx, d, c.ID.String(), now, body)
	if ctx.Err() != nil { // this process is stopping
		return Outcome{}, ctx.Err()
	}
	out := Outcome{State: schema.DeliveryDelivered, Status: status, At: s.clock.now()}
	switch {
	case err == nil && status/100 == 2:
		return out, nil
	case err != nil:
		out.Problem = reasonOf(err)
	case status/100 == 3:
		out.Problem = fmt.Sprintf("the receiver answered %d; redirects are not followed", status)
	default:
		out.Problem = fmt.Sprintf("the receiver answered %d %s", status, http.StatusText(status))
	}
	out.Next = out.At.Add(pauseAfter(c.Attempt))
	out.State = schema.DeliveryWaiting
	if c.Attempt >= maxAttempts || out.Next.Sub(c.Since) > longest || status == http.StatusGone || errors.Is(err, errRefused) {
		out.State = schema.DeliveryFailed
	}
	return out, nil
}

// pauseAfter returns the pause after this many attempts.
func pauseAfter(attempts int) time.Duration {
	pause := firstPause << min(attempts-1, maxAttempts)
	return pause*3/4 + rand.N(pause/2)
}

// reasonOf returns what a tenant is shown for an attempt without a reply.
func reasonOf(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errRefused):
		text := err.Error()
		return text[strings.Index(text, errRefused.Error()):]
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the receiver took too long"
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		err = sent.Err // without the address, which the webhook shows
	}
	text := err.Error()
	return text[:min(len(text), 300)]
}

// body returns the payload. Its link leads to the API, which requires a key.
func (s *Sender) body(tenant uuid.UUID, d Delivery) ([]byte, error) {
	type head struct {
		Tenant uuid.UUID `json:"tenant_id"`
		Link   string    `json:"link"`
	}
	payload := struct {
		Type string    `json:"type"`
		At   time.Time `json:"timestamp"`
		Data any       `json:"data"`
	}{Type: d.Kind, At: d.At.UTC()}
	switch {
	case d.Better != nil:
		payload.Data = struct {
			head
			*BetterPlan
		}{head{tenant, s.options.PublicURL + "/v1/collections/" + d.Better.Collection.String() + "/plan-choices/" + d.Better.Choice.String()}, d.Better}
	case d.Job != nil:
		payload.Data = struct {
			head
			*Job
		}{head{tenant, s.options.PublicURL + "/v1/jobs/" + d.Job.ID.String()}, d.Job}
	default:
		payload.Data = struct {
			head
			*Version
		}{head{tenant, s.options.PublicURL + "/v1/documents/" + d.Version.Document.String()}, d.Version}
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode a webhook's payload: %w", err)
	}
	return body, nil
}

// send posts a signed payload and returns the reply's status.
func (s *Sender) send(ctx context.Context, d Delivery, id string, at time.Time, body []byte) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Webhook.URL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Sluice-Webhooks")
	r.Header["Idempotency-Key"] = nil // not sent; allows a retry on another connection when one was closed
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("Webhook-Signature", sign(d.Secrets, id, at, body))
	reply, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reply.Body.Close() }()
	_, _ = io.CopyN(io.Discard, reply.Body, maxReply) // the contents are ignored
	return reply.StatusCode, nil
}
