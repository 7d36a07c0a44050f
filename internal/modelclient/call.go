package modelclient

// This file sends one part until a server answers it. If none does, the error says what to do.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/modelclient"

// errNoServer means that no server is subscribed, or that the server died with the request.
var errNoServer = fmt.Errorf("no model server answers: start gpu-segmenter with this SLUICE_NATS_URL (`sluice up` starts one), "+
	"or see in its log why it stopped: %w", schema.ErrUnavailable)

// begin opens the client's span; finish ends it.
func (c *Client) begin(ctx context.Context, op wire.ModelOp, lane wire.Lane, more ...attribute.KeyValue) (_ context.Context, finish func(error)) {
	ctx, span := otel.Tracer(scope).Start(ctx, "model."+string(op), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(more, attribute.String("lane", string(lane)))...))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// retryable reports whether a retry may succeed, which is so for errors that say nothing about the
// request itself.
func retryable(err error) bool {
	return errors.Is(err, schema.ErrOverloaded) || errors.Is(err, schema.ErrUnavailable)
}

func tooLarge(err error) bool { return errors.Is(err, schema.ErrTooLarge) }

// call sends a request and retries until it is answered or ctx ends. request returns the request
// for a deadline; failure returns the error in a reply.
func call[Reply any](ctx context.Context, c *Client, op wire.ModelOp, lane wire.Lane, request func(deadline time.Time) any, failure func(Reply) *schema.RemoteError) (reply Reply, err error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	var lastErr error // why the last try failed before ctx ended
	_, err = c.retry.WithContext(ctx).Get(func() ([]byte, error) {
		attemptCtx, cancel := context.WithTimeout(ctx, c.attemptTimeout(ctx, op, lane))
		defer cancel()
		var err error
		reply, err = sendOnce(attemptCtx, c, op, request, failure)
		if op == wire.OpSegmentEncode && errors.Is(err, errNoServer) && ctx.Err() == nil {
			return nil, errNoSegmentEncode // there may be older servers without this operation
		}
		if err != nil && ctx.Err() == nil {
			lastErr = err
		}
		if errors.Is(err, errNoServer) {
			c.info.Store(nil) // the next server may have another pack
		}
		return nil, err
	})
	if err == nil {
		return reply, nil
	}
	if ended := ctx.Err(); ended != nil {
		if lastErr == nil {
			lastErr = errNoServer
		}
		return reply, errors.Join(lastErr, ended)
	}
	return reply, err
}

// attemptTimeout returns how long one try of an operation may take. A model behind an API may take
// as long as its gateway allows: an earlier retry would pay for the same call twice.
func (c *Client) attemptTimeout(ctx context.Context, op wire.ModelOp, lane wire.Lane) time.Duration {
	limit := c.options.BulkAttemptTimeout
	if lane == wire.LaneInteractive {
		limit = c.options.InteractiveAttemptTimeout
	}
	if op != wire.OpEncode && op != wire.OpRerank {
		return limit
	}
	cached := c.info.Load()
	if cached == nil {
		ctx, cancel := context.WithTimeout(ctx, infoTimeout)
		defer cancel()
		info, err := sendOnce(ctx, c, wire.OpInfo, infoRequest, infoFailure)
		if err != nil {
			return limit
		}
		cached = c.storeInfo(info)
	}
	if slices.Contains(cached.info.Remote, op) {
		return c.options.Timeout
	}
	return limit
}

// infoTimeout is how long attemptTimeout waits for the server's info before it goes on without it.
const infoTimeout = time.Second

// sendOnce sends a request to one server and waits for its reply until ctx ends.
func sendOnce[Reply any](ctx context.Context, c *Client, op wire.ModelOp, request func(deadline time.Time) any, failure func(Reply) *schema.RemoteError) (reply Reply, err error) {
	deadline, _ := ctx.Deadline()
	body := request(deadline)
	framed := c.frames.enabled(time.Now()) || op == wire.OpSegmentEncode // every server with that operation reads frames
	msg, err := c.send(ctx, op, body, framed)
	if err == nil && framed && msg.Header.Get(wire.HeaderFrames) == "" {
		// An older server, which runs together with newer ones, received the frame.
		c.frames.disable(time.Now())
		msg, err = c.send(ctx, op, body, false)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return reply, errNoServer
	case errors.Is(err, context.Canceled), errors.Is(err, errUnwritten):
		return reply, err
	case err != nil:
		return reply, fmt.Errorf("send to the model server: %w: %w", schema.ErrUnavailable, err)
	}
	if msg.Header.Get(wire.HeaderFrames) == wire.FrameVersion {
		c.frames.markSupported()
	}
	if err := wire.Read(msg.Data, &reply); err != nil {
		return reply, fmt.Errorf("the model server's reply: %s", err) // not caused by the request
	}
	remote := failure(reply)
	switch {
	case remote == nil:
		return reply, nil
	case remote.Code == schema.CodeDeadline:
		return reply, fmt.Errorf("the model server had no time for the request before its deadline: %w", schema.ErrOverloaded)
	}
	return reply, fmt.Errorf("model server: %w", remote)
}

// errUnwritten means that a request can't be encoded.
var errUnwritten = errors.New("write a request to the model server")

// send sends a request, as a frame or as JSON, and waits for a reply of either form.
func (c *Client) send(ctx context.Context, op wire.ModelOp, request any, framed bool) (*nats.Msg, error) {
	write := wire.Encode
	if framed {
		write = wire.EncodeFrame
	}
	data, err := write(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnwritten, err)
	}
	subject := op
	if op == wire.OpRerank {
		subject = wire.OpScore // takes requests of the reranker, too
	}
	msg := &nats.Msg{Subject: c.subject(subject), Data: data, Header: nats.Header{wire.HeaderFrames: {wire.FrameVersion}}}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(msg.Header))
	if tenant := cmp.Or(c.tenant, wire.TenantOf(ctx)); tenant != uuid.Nil {
		msg.Header.Set(wire.HeaderTenant, tenant.String())
	}
	if c.yields != nil && c.yields() {
		msg.Header.Set(wire.HeaderYields, "yes")
	}
	return c.nc.RequestMsgWithContext(ctx, msg)
}
