package bus

// The status of services: each process answers for its own, and Services collects the answers.

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

// ServeStatus answers status requests with the state of one service, until stop is called. It sets
// the fields that identify the process.
func ServeStatus(nc *nats.Conn, state func() schema.ServiceState) (stop func(), err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("serve the status: get the host name: %w", err)
	}
	sub, err := nc.Subscribe(wire.StatusSubject, func(msg *nats.Msg) {
		s := state()
		s.Program, s.Host, s.PID = nc.Opts.Name, host, os.Getpid()
		data, err := wire.Encode(wire.StatusReply{Envelope: wire.Header(), ServiceState: s})
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil && !errors.Is(err, nats.ErrMsgNoReply) {
			slog.Warn("could not send the status of a service", "service", s.Service, "error", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("serve the status: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection's end ends it too
}

// statusTimeout is how long Services waits for the next reply.
const statusTimeout = 250 * time.Millisecond

// Services returns the status of all services. Those that do not reply in time are left out.
func Services(ctx context.Context, nc *nats.Conn) ([]schema.ServiceState, error) {
	out := []schema.ServiceState{}
	fail := func(err error) ([]schema.ServiceState, error) {
		return out, fmt.Errorf("get the status of services: %w", err)
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
		next, cancel := context.WithTimeout(ctx, statusTimeout)
		msg, err := sub.NextMsgWithContext(next)
		cancel()
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return out, nil
		case err != nil:
			return fail(err)
		}
		reply, err := wire.Decode[wire.StatusReply](msg.Data)
		if err != nil { // from a newer build; the other replies still count
			slog.WarnContext(ctx, "could not read the status of a service", "error", err)
			continue
		}
		out = append(out, reply.ServiceState)
	}
}

// counts counts the requests of a run of a service.
type counts struct {
	served, refused, nanos atomic.Int64
}

// record counts a request that was served from began until now.
func (c *counts) record(began time.Time) {
	c.served.Add(1)
	c.nanos.Add(int64(time.Since(began)))
}

// state returns the status of a run of a service.
func (r *serviceRun) state() schema.ServiceState {
	running, waiting := r.queue.Load()
	return schema.ServiceState{ID: r.id, Service: r.options.Subject, Since: r.since, Places: r.options.Concurrency, Running: running, Waiting: waiting,
		Served: r.counts.served.Load(), Refused: r.counts.refused.Load(), Millis: float64(r.counts.nanos.Load()) / 1e6}
}
