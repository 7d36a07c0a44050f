package inference

// This file answers one request: decode, admit, tokenise, run through the queues, reply.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// operations are those that package wire declares, in its order; declared holds them by name.
var (
	operations = wire.ModelOperations()
	declared   = func() map[wire.ModelOp]wire.ModelOperation {
		all := map[wire.ModelOp]wire.ModelOperation{}
		for _, o := range operations {
			all[o.Name] = o
		}
		return all
	}()
)

// answers holds the function that computes each operation. The file of an operation registers it
// with handle.
var answers = map[wire.ModelOp]func(*service, context.Context, batch.Caller, []byte) (any, error){}

// handle registers compute as the function that answers an operation. compute gets a request's
// caller and bytes.
func handle[Reply any](op wire.ModelOp, compute func(*service, context.Context, batch.Caller, []byte) (Reply, error)) {
	answers[op] = func(s *service, ctx context.Context, caller batch.Caller, data []byte) (any, error) {
		return compute(s, ctx, caller, data)
	}
}

// answer replies to a message that was accepted.
func (s *service) answer(op wire.ModelOp, lane wire.Lane, msg *nats.Msg) {
	ctx, finish := s.metrics.begin(s.ctx, op, lane, msg.Header)
	var reply any
	err := s.model.refuses(op)
	replyOp := op
	if err == nil {
		reply, err = answers[op](s, ctx, batch.Caller{Tenant: tenantOf(msg), Lane: lane, Yields: msg.Header.Get(wire.HeaderYields) != ""}, msg.Data)
	}
	if reporter, ok := reply.(interface{ Op() wire.ModelOp }); ok {
		replyOp = reporter.Op()
	}
	finish(replyOp, err)
	s.respond(ctx, op, msg, reply, err)
}

// tenantOf returns the tenant that a request is made for. All requests without one count as one
// tenant's.
func tenantOf(msg *nats.Msg) uuid.UUID {
	id, err := uuid.Parse(msg.Header.Get(wire.HeaderTenant))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// refuse replies to a message that was not accepted.
func (s *service) refuse(op wire.ModelOp, lane wire.Lane, msg *nats.Msg, err error) {
	ctx, finish := s.metrics.begin(s.ctx, op, lane, msg.Header)
	finish(op, err)
	s.respond(ctx, op, msg, nil, err)
}

func (s *service) respond(ctx context.Context, op wire.ModelOp, msg *nats.Msg, reply any, err error) {
	if err != nil {
		remote := toRemote(err)
		reply = declared[op].Refuse(remote)
		if remote.Code == schema.CodeInternal {
			s.log.ErrorContext(ctx, "model request failed", "op", op, "error", err)
		}
	}
	write, answer := wire.Encode, &nats.Msg{}
	if msg.Header.Get(wire.HeaderFrames) == wire.FrameVersion {
		write, answer.Header = wire.EncodeFrame, nats.Header{wire.HeaderFrames: {wire.FrameVersion}}
	}
	data, err := write(reply)
	if err == nil {
		answer.Data = data
		err = msg.RespondMsg(answer)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "cannot send a model reply", "op", op, "bytes", len(data), "error", err)
	}
}

// toRemote returns err with its code on the wire. Errors of contexts have no sentinel in package
// schema.
func toRemote(err error) *schema.RemoteError {
	remote := schema.ToRemote(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		remote.Code, remote.Message = schema.CodeDeadline, "the request's deadline passed before it was run"
	case errors.Is(err, context.Canceled):
		remote.Code, remote.Message = schema.CodeUnavailable, "the model server is stopping"
	case errors.Is(err, wire.ErrVersion):
		remote.Code, remote.Field = schema.CodeInvalid, "v"
	}
	return remote
}

// withDeadline gives ctx the request's deadline.
func withDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}

// read decodes a request in a slot.
func read[M any, P interface {
	*M
	wire.Message
}](ctx context.Context, s *service, lane wire.Lane, data []byte) (request M, err error) {
	if err := s.slots.Acquire(ctx, lane.Background()); err != nil {
		return request, err
	}
	defer s.slots.Release(lane.Background())
	return wire.Decode[M, P](data)
}

// timedRequest is a request that states its lane and its deadline.
type timedRequest interface {
	// Terms returns the request's lane, and the time after which nobody waits for its reply.
	Terms() (wire.Lane, time.Time)
}

// begin decodes a request in a slot, checks its lane, and bounds ctx by its deadline. If err is
// nil, the caller must call cancel.
func begin[M timedRequest, P interface {
	*M
	wire.Message
}](ctx context.Context, s *service, caller *batch.Caller, data []byte) (request M, bounded context.Context, cancel context.CancelFunc, err error) {
	if request, err = read[M, P](ctx, s, caller.Lane, data); err != nil {
		return request, nil, nil, err
	}
	lane, deadline := request.Terms()
	caller.Lane = lane
	if lane != wire.LaneInteractive && lane != wire.LaneBulk {
		return request, nil, nil, schema.Invalid("lane", "%q is neither %s nor %s", lane, wire.LaneInteractive, wire.LaneBulk)
	}
	bounded, cancel = withDeadline(ctx, deadline)
	return request, bounded, cancel, nil
}

// fits checks that a reply with n entries of so many bytes each fits a message. field names the
// request's field that has the entries.
func (s *service) fits(field string, n, bytes int) error {
	if limit := (int(s.nc.MaxPayload()) - 4096) / bytes; n > limit {
		return fmt.Errorf("%s: the reply to %d would not fit a message, ask for %d at most: %w", field, n, limit, schema.ErrTooLarge)
	}
	return nil
}
