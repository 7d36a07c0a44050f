// Package modelclient is the client of the model server over NATS. It requests the vectors of
// texts, the segmentation scores of sentences, links between passages, and scores of texts for a
// question. It splits requests that are too long for one message, sends the parts in parallel,
// backs off while servers are overloaded or absent, and joins the replies in order.
package modelclient

// This file contains the client and its operations; split.go splits requests into parts, call.go
// sends one part.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ErrPackMismatch means that model servers with different packs run at the same time. Retrying does
// not help: the operator must give all of them one pack. So ErrPackMismatch wraps none of the
// errors on which callers retry.
var ErrPackMismatch = errors.New("model servers with different packs")

// Options are the options of a Client. Zero values take the defaults.
type Options struct {
	// Parallel is how many parts of one call are in flight at once; default 4.
	Parallel int
	// Timeout is how long a part is retried when the context has no deadline; default 2 minutes.
	Timeout time.Duration
	// InteractiveAttemptTimeout and BulkAttemptTimeout bound one attempt at a part, which is also
	// the time lost when a server dies during the attempt; defaults 5 and 30 seconds.
	InteractiveAttemptTimeout time.Duration
	BulkAttemptTimeout        time.Duration
	// Log receives a message when texts were cut; default slog.Default().
	Log *slog.Logger
}

// Client sends requests to model servers. It is safe for concurrent use and needs no closing.
type Client struct {
	nc      *nats.Conn
	options Options
	retry   failsafe.Executor[[]byte]
	// dimension is that of the vectors last received. It bounds how many vectors fit in a reply. 0:
	// not known yet.
	dimension *atomic.Int64
	// info is the last reply of a server to an info request; nil: not known.
	info *atomic.Pointer[serverInfo]
	// frames records whether servers read frames. apart is begun when servers turn out not to have
	// segment_encode.
	frames                *frames
	segmentEncodeCooldown *cooldown
	// second is the client of the second encoder; nil: this client is the second encoder's.
	second *Client
	// tenant and yields are the arguments of For.
	tenant uuid.UUID
	yields func() bool
}

// serverInfo is a server's reply to an info request, and when it came.
type serverInfo struct {
	info wire.ModelInfo
	at   time.Time
}

// The second encoder's servers work within a share of processor time, so a background request may
// wait there for earlier requests. Requests with few texts, sent one after the other, do not run
// into the time limit while they are encoded.
const (
	secondTexts          = 16
	secondAttemptTimeout = 2 * time.Minute
)

// New returns a client on a connection that the caller keeps and closes.
func New(nc *nats.Conn, o Options) *Client {
	c := newClient(nc, o)
	o = c.options
	o.Parallel, o.BulkAttemptTimeout = 1, max(o.BulkAttemptTimeout, secondAttemptTimeout)
	c.second = newClient(nc, o)
	return c
}

func newClient(nc *nats.Conn, o Options) *Client {
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	set := func(value *time.Duration, fallback time.Duration) {
		if *value <= 0 {
			*value = fallback
		}
	}
	set(&o.Timeout, 2*time.Minute)
	set(&o.InteractiveAttemptTimeout, 5*time.Second)
	set(&o.BulkAttemptTimeout, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	policy := retrypolicy.NewBuilder[[]byte]().
		HandleIf(func(_ []byte, err error) bool { return retryable(err) }).
		WithBackoff(20*time.Millisecond, time.Second).
		WithJitterFactor(0.5).
		WithMaxRetries(-1).
		ReturnLastFailure().
		Build()
	return &Client{nc: nc, options: o, retry: failsafe.With[[]byte](policy),
		dimension: &atomic.Int64{}, info: &atomic.Pointer[serverInfo]{}, frames: &frames{}, segmentEncodeCooldown: &cooldown{}}
}

// For returns a client that sends requests for a tenant: servers alternate between tenants that
// send requests at the same time. yields is called before each request and returns whether the
// request yields to those of other tenants; nil: it does not.
func (c *Client) For(tenant uuid.UUID, yields func() bool) *Client {
	clone := *c
	clone.tenant, clone.yields = tenant, yields
	return &clone
}

// Second returns a client of the servers of the second encoder. It supports Encode, Link and Info.
func (c *Client) Second() *Client {
	clone := *c.second
	clone.tenant, clone.yields = c.tenant, c.yields
	return &clone
}

// subject returns the NATS subject of op.
func (c *Client) subject(op wire.ModelOp) string {
	if c.second == nil {
		return wire.SecondModelSubject(op)
	}
	return wire.ModelSubject(op)
}

// Encode returns one unit vector per text, in order, and the space of the vectors; a text without
// known tokens has a zero vector. Only the first 400 KB of a text are read. Without texts, Encode
// returns no vectors and an empty space.
//
// While no server answers, or servers are overloaded, Encode retries until ctx ends; then the error
// wraps schema.ErrUnavailable or schema.ErrOverloaded, and ctx's error.
func (c *Client) Encode(ctx context.Context, lane wire.Lane, texts []string) (_ wire.Vectors, space string, err error) {
	return c.encode(ctx, lane, texts, 0)
}

// EncodeQuery is like Encode, for a question and passages: the first vector is the question's.
func (c *Client) EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error) {
	return c.encode(ctx, lane, append([]string{question}, passages...), 1)
}

// encode implements Encode and EncodeQuery. The first queries texts are questions; they are sent in
// the first part.
func (c *Client) encode(ctx context.Context, lane wire.Lane, texts []string, queries int) (_ wire.Vectors, space string, err error) {
	if len(texts) == 0 {
		return wire.Vectors{}, "", nil
	}
	ctx, finish := c.begin(ctx, wire.OpEncode, lane, attribute.Int("texts", len(texts)))
	defer func() { finish(err) }()

	texts, truncated := shorten(texts, textBytes)
	parts := splitTexts(texts, c.textsPerPart(), partBytes)
	replies := make([][]wire.EncodeReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		questions := 0
		if i == 0 {
			questions = queries
		}
		replies[i], err = c.encodePart(ctx, lane, parts[i], questions)
		return err
	})
	if err != nil {
		return wire.Vectors{}, "", fmt.Errorf("encode %d texts: %w", len(texts), err)
	}
	var out wire.Vectors
	for _, partReplies := range replies {
		for _, r := range partReplies {
			if out.Data == nil {
				space = r.Space
				out = wire.Vectors{Dimension: r.Vectors.Dimension, Data: make([]float32, 0, len(texts)*r.Vectors.Dimension)}
			}
			if r.Space != space || r.Vectors.Dimension != out.Dimension {
				return wire.Vectors{}, "", fmt.Errorf("encode %d texts: model servers disagree, they have the spaces %q and %q; "+
					"give all of them one pack (SLUICE_MODEL_PACK): %w", len(texts), space, r.Space, ErrPackMismatch)
			}
			out.Data = append(out.Data, r.Vectors.Data...)
			truncated += r.Truncated
		}
	}
	if truncated > 0 {
		c.options.Log.InfoContext(ctx, "texts are longer than the model's limit; only their beginnings are encoded", "texts", truncated, "of", len(texts))
	}
	return out, space, nil
}

// Segment returns, for each run of n sentences, n-1 scores in [0, 1] of how well neighbours belong
// together; a score under threshold means a cut. Runs may have any length. Only the first 200 KB of
// a sentence are read. Errors are as Encode's. Without runs, Segment returns no scores and
// threshold 0.
func (c *Client) Segment(ctx context.Context, lane wire.Lane, runs [][]string) (scores [][]float32, threshold float64, err error) {
	if len(runs) == 0 {
		return nil, 0, nil
	}
	ctx, finish := c.begin(ctx, wire.OpSegment, lane, attribute.Int("runs", len(runs)))
	defer func() { finish(err) }()

	parts := splitRuns(runs)
	replies := make([]wire.SegmentReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		replies[i], err = c.segmentPart(ctx, lane, parts[i])
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("segment %d runs: %w", len(runs), err)
	}
	scores = make([][]float32, len(runs))
	for i, run := range runs {
		scores[i] = make([]float32, 0, max(0, len(run)-1))
	}
	for i, r := range replies {
		if r.Model != replies[0].Model || r.Threshold != replies[0].Threshold {
			return nil, 0, fmt.Errorf("segment %d runs: %w", len(runs), packMismatch(replies[0].Model, r.Model))
		}
		for j, run := range parts[i].index {
			scores[run] = append(scores[run], r.Scores[j][parts[i].from[j]:parts[i].to[j]]...)
		}
	}
	return scores, replies[0].Threshold, nil
}

// Info asks one model server what it serves. Errors are as Encode's.
func (c *Client) Info(ctx context.Context) (_ wire.ModelInfo, err error) {
	ctx, finish := c.begin(ctx, wire.OpInfo, wire.LaneInteractive)
	defer func() { finish(err) }()
	info, err := call(ctx, c, wire.OpInfo, wire.LaneInteractive, infoRequest, infoFailure)
	if err != nil {
		return info, fmt.Errorf("ask the model server what it serves: %w", err)
	}
	c.storeInfo(info)
	return info, nil
}

func infoRequest(time.Time) any { return wire.ModelInfoRequest{Envelope: wire.Header()} }

func infoFailure(r wire.ModelInfo) *schema.RemoteError { return r.Error }

// storeInfo stores a server's reply to an info request.
func (c *Client) storeInfo(info wire.ModelInfo) *serverInfo {
	cached := &serverInfo{info, time.Now()}
	c.dimension.Store(int64(info.Dimension))
	c.info.Store(cached)
	return cached
}

// each runs work for all parts, at most Parallel at once, and stops at the first error.
func (c *Client) each(ctx context.Context, parts int, work func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.options.Parallel)
	for i := range parts {
		group.Go(func() error { return work(ctx, i) })
	}
	return group.Wait()
}

// encodePart encodes one part. When the reply would be too large for a message, it encodes the two
// halves of the part instead.
func (c *Client) encodePart(ctx context.Context, lane wire.Lane, texts []string, queries int) ([]wire.EncodeReply, error) {
	reply, err := call(ctx, c, wire.OpEncode, lane, func(deadline time.Time) any {
		return wire.EncodeRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Texts: texts, Queries: queries}
	}, func(r wire.EncodeReply) *schema.RemoteError { return r.Error })
	if tooLarge(err) && len(texts) > 1 {
		first, err := c.encodePart(ctx, lane, texts[:len(texts)/2], queries)
		if err != nil {
			return nil, err
		}
		second, err := c.encodePart(ctx, lane, texts[len(texts)/2:], 0)
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	if reply.Vectors.Len() != len(texts) {
		return nil, fmt.Errorf("the model server gave %d vectors for %d texts", reply.Vectors.Len(), len(texts))
	}
	c.dimension.Store(int64(reply.Vectors.Dimension))
	return []wire.EncodeReply{reply}, nil
}

func (c *Client) segmentPart(ctx context.Context, lane wire.Lane, p runsPart) (wire.SegmentReply, error) {
	reply, err := call(ctx, c, wire.OpSegment, lane, func(deadline time.Time) any {
		return wire.SegmentRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Runs: p.runs}
	}, func(r wire.SegmentReply) *schema.RemoteError { return r.Error })
	if err != nil {
		return reply, err
	}
	if len(reply.Scores) != len(p.runs) {
		return reply, fmt.Errorf("the model server gave scores of %d runs for %d", len(reply.Scores), len(p.runs))
	}
	for i, run := range p.runs {
		if len(reply.Scores[i]) != max(0, len(run)-1) {
			return reply, fmt.Errorf("the model server gave %d scores for a run of %d sentences", len(reply.Scores[i]), len(run))
		}
	}
	return reply, nil
}
