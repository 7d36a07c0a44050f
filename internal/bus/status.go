package bus

// How the parts that answer requests are: each tells it when it is asked, and who asks hears all of them. What no process
// answers for is not there.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Tell has this process answer for a service when somebody asks how all are, until stop is called. state gives what
// only the service knows; the process is filled in here.
func Tell(nc *nats.Conn, state func() schema.ServiceState) (stop func(), err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("tell how a service is: name this machine: %w", err)
	}
	sub, err := nc.Subscribe(wire.StatusSubject, func(msg *nats.Msg) {
		s := state()
		s.Program, s.Host, s.PID = nc.Opts.Name, host, os.Getpid()
		data, err := wire.Encode(wire.StatusReply{Envelope: wire.Header(), ServiceState: s})
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil && !errors.Is(err, nats.ErrMsgNoReply) {
			slog.Warn("could not tell how a service is", "service", s.Service, "error", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("tell how a service is: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection's end ends it too
}

// silence is after how long without a reply nobody else is waited for: all are asked at once, and each answers from its
// memory.
const silence = 250 * time.Millisecond

// Services asks all parts that answer requests how they are. Those that do not reply in time are left out.
func Services(ctx context.Context, nc *nats.Conn) ([]schema.ServiceState, error) {
	out := []schema.ServiceState{}
	fail := func(err error) ([]schema.ServiceState, error) {
		return out, fmt.Errorf("ask how services are: %w", err)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fail(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection's end ends it too
	data, err := wire.Encode(wire.StatusRequest{Envelope: wire.Header()})
	if err == nil {
		err = nc.PublishRequest(wire.StatusSubject, inbox, data)
	}
	if err != nil {
		return fail(err)
	}
	for {
		next, cancel := context.WithTimeout(ctx, silence)
		msg, err := sub.NextMsgWithContext(next)
		cancel()
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return out, nil
		case err != nil:
			return fail(err)
		}
		reply, err := wire.Decode[wire.StatusReply](msg.Data)
		if err != nil { // of a newer build: the others count all the same
			slog.WarnContext(ctx, "could not read how a service is", "error", err)
			continue
		}
		out = append(out, reply.ServiceState)
	}
}

// counts are what a run of a service did.
type counts struct {
	served, refused, nanos atomic.Int64
}

// ran counts a request that was served since began.
func (c *counts) ran(began time.Time) {
	c.served.Add(1)
	c.nanos.Add(int64(time.Since(began)))
}

// state tells how a run of a service is.
func (r *serving) state() schema.ServiceState {
	running, waiting := r.queue.Load()
	return schema.ServiceState{ID: r.id, Service: r.options.Subject, Since: r.since, Places: r.options.Concurrency, Running: running, Waiting: waiting,
		Served: r.counts.served.Load(), Refused: r.counts.refused.Load(), Millis: float64(r.counts.nanos.Load()) / 1e6}
}
