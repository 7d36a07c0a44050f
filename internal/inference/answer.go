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

// operations are those that package wire declares, in its order; declared has them by name.
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

// answers compute the operations; each is put here beside its code.
var answers = map[wire.ModelOp]func(*service, context.Context, batch.Caller, []byte) (any, error){}

// handle has an operation answered by compute, which has a request's caller and bytes.
func handle[Reply any](op wire.ModelOp, compute func(*service, context.Context, batch.Caller, []byte) (Reply, error)) {
	answers[op] = func(s *service, ctx context.Context, caller batch.Caller, data []byte) (any, error) {
		return compute(s, ctx, caller, data)
	}
}

// answer replies to a message that was taken in.
func (s *service) answer(op wire.ModelOp, lane wire.Lane, msg *nats.Msg) {
	ctx, finish := s.metrics.begin(s.ctx, op, lane, msg.Header)
	var reply any
	err := s.model.refuses(op)
	did := op
	if err == nil {
		reply, err = answers[op](s, ctx, batch.Caller{Tenant: tenantOf(msg), Lane: lane, Yields: msg.Header.Get(wire.HeaderYields) != ""}, msg.Data)
	}
	if named, is := reply.(interface{ Op() wire.ModelOp }); is {
		did = named.Op()
	}
	finish(did, err)
	s.respond(ctx, op, msg, reply, err)
}

// tenantOf reads for whom a request is made. Those that don't say it count as one tenant's.
func tenantOf(msg *nats.Msg) uuid.UUID {
	id, err := uuid.Parse(msg.Header.Get(wire.HeaderTenant))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// refuse replies to a message that was not taken in.
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

// toRemote gives err its code on the wire; contexts' errors have no sentinel in schema.
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

// until gives ctx the request's deadline.
func until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
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

// urgent is a request that says how urgent it is.
type urgent interface {
	// Terms are the request's lane, and when nobody waits for it any more.
	Terms() (wire.Lane, time.Time)
}

// begin decodes a request in a slot, checks its lane, and bounds ctx by its deadline. Without an
// error whoever calls must cancel that.
func begin[M urgent, P interface {
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
	bounded, cancel = until(ctx, deadline)
	return request, bounded, cancel, nil
}

// fits checks that the reply to n things of a request's field fits a message.
func (s *service) fits(field string, n, bytes int) error {
	if most := (int(s.nc.MaxPayload()) - 4096) / bytes; n > most {
		return fmt.Errorf("%s: the reply to %d would not fit a message, ask for %d at most: %w", field, n, most, schema.ErrTooLarge)
	}
	return nil
}
