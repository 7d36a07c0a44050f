// Package bus is how Sluice uses NATS: connections, streams, request/reply services, and the trace
// context that travels in message headers. Package schema/wire defines the subjects and messages.
package bus

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/tcp"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Options are the settings of a connection.
type Options struct {
	URL  string
	Name string // of the client, shown in NATS' monitoring
	// Program selects the inbox at which replies arrive. If it is empty, that is an inbox that
	// servers with restricted users do not allow.
	Program wire.Program
	Files   Files
	Seed    []byte // of an NKey; used instead of Files.NATSCredentials
}

// pingEvery and pingsOut decide how soon a silently broken connection is noticed: when the ping
// after pingsOut unanswered ones is due, at most pingEvery * (pingsOut + 1) after the last reply.
// Servers that we configure ping as often; otherwise they would send requests to workers that are
// gone.
const (
	pingEvery = 9 * time.Second
	pingsOut  = 2
)

// Connect connects and keeps reconnecting for as long as the process lives; the
// first connection must succeed before ctx ends.
func Connect(ctx context.Context, o Options) (*nats.Conn, error) {
	dialer := tcp.Dialer()
	dialer.Timeout = 5 * time.Second
	options, err := o.Files.options()
	if err != nil {
		return nil, err
	}
	if o.Seed != nil {
		seed, err := seeded(o.Seed)
		if err != nil {
			return nil, err
		}
		options = append(options, seed)
	}
	if o.Program != "" {
		options = append(options, nats.CustomInboxPrefix(o.Program.Inbox()))
		if o.Seed == nil && o.Files.NATSCredentials == "" {
			slog.Warn("this program has no credentials of its own for NATS (SLUICE_NATS_CREDENTIALS): anybody who has the address "+
				"can read messages and send requests as any tenant; `sluice nats-config` makes credentials", "program", o.Program)
		}
	}
	options = append(options,
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.SyncQueueLen(streamMessages), // each synchronous subscription allocates a queue of this length
		nats.ReconnectWait(250*time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 250*time.Millisecond),
		nats.SetCustomDialer(dialer),
		nats.Timeout(5*time.Second),
		// A broken connection is closed when the third ping is due.
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		nats.FlusherTimeout(5*time.Second),
		nats.DrainTimeout(30*time.Second),
		nats.ErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
			denyInbox(nc, err)
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			slog.Warn("nats reports an error", "subject", subject, "error", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				slog.Warn("lost the connection to nats; reconnecting", "error", err)
			}
		}),
		nats.PermissionErrOnSubscribe(true),
	)
	nc, err := lifecycle.Connect(ctx, "nats", func(context.Context) (*nats.Conn, error) { return nats.Connect(o.URL, options...) })
	if err != nil {
		return nil, fmt.Errorf("connect to nats at %s (SLUICE_NATS_URL): %w", redact(o.URL), err)
	}
	return nc, nil
}

// eventsAge is how long events are kept.
const eventsAge = 24 * time.Hour

// StreamLimits are the limits of the streams.
type StreamLimits struct {
	// PerTenant is how many versions, or questions, of one tenant may wait in
	// JetStream; more wait in the outbox. 0: 2,000.
	PerTenant int64
	// Duplicates is how long JetStream drops messages with a repeated id. 0: 2 minutes.
	Duplicates time.Duration
	// Replicas is the number of replicas of every stream. 0: 1.
	Replicas int
}

// EnsureStreams creates or updates the streams. Several processes may call it at once.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, l StreamLimits) error {
	perTenant := positiveOr(l.PerTenant, 2_000)
	duplicates := positiveOr(l.Duplicates, 2*time.Minute)
	work := func(name, subjects string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name:                 name,
			Subjects:             []string{subjects},
			Retention:            jetstream.WorkQueuePolicy,
			Discard:              jetstream.DiscardNew,
			DiscardNewPerSubject: true,
			MaxMsgsPerSubject:    perTenant,
			Duplicates:           duplicates,
			Replicas:             positiveOr(l.Replicas, 1),
		}
	}
	for _, config := range []jetstream.StreamConfig{
		work(wire.StreamIngest, wire.IngestSubjects),
		work(wire.StreamQuestions, wire.QuestionsSubjects),
		{
			Name:       wire.StreamEvents,
			Subjects:   []string{wire.EventsSubjects},
			Retention:  jetstream.LimitsPolicy,
			MaxAge:     eventsAge,
			MaxBytes:   256 << 20,
			Duplicates: min(duplicates, eventsAge),
			Replicas:   positiveOr(l.Replicas, 1),
		},
	} {
		err := retryUnanswered(ctx, func(ctx context.Context) error {
			_, err := js.CreateOrUpdateStream(ctx, config)
			return err
		})
		if err != nil {
			return fmt.Errorf("ensure stream %s (is JetStream on?): %w", config.Name, err)
		}
	}
	return nil
}

// answerTimeout is how long JetStream may take to create a stream.
const answerTimeout = 10 * time.Second

// retryUnanswered calls ask again, until ctx ends, as long as it gets no answer in time: when
// several clients create the same stream at once, a server may answer only some of them.
func retryUnanswered(ctx context.Context, ask func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, answerTimeout)
		err := ask(attempt)
		unanswered := attempt.Err() != nil
		cancel()
		if err == nil || !unanswered || ctx.Err() != nil {
			return err
		}
	}
}

func positiveOr[T int | int64 | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// Inject writes the trace context of ctx into a message's header.
func Inject(ctx context.Context, header nats.Header) {
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header))
}

// Extract returns ctx with the trace context of a message's header.
func Extract(ctx context.Context, header nats.Header) context.Context {
	return otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(header))
}

// Traceparent returns the W3C trace context of ctx as text, or "" if it has none. It is stored with
// queued work, so that later work links to its cause.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// WithTraceparent returns ctx as if it were inside the span that traceparent
// names.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
