package inference

// This file is the life cycle of the model server: it subscribes, accepts requests within its
// limits, and stops in two phases. answer.go answers the requests.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ServerOptions bound a Server. Zero values take the defaults.
type ServerOptions struct {
	MaxBytes     int           // of requests held at once; default 64 MB
	MaxSequences int           // texts and sentences held at once, one for the reranker counted as ten; default 32,768
	Batch        int           // most sequences, or pairs, of a batch; default 512
	BatchTokens  int           // most tokens of an encoder batch; default 4,096 on a CPU, 65,536 with CUDA
	PairTokens   int           // most tokens of a batch of pairs; default 1,024 on a CPU, 65,536 with CUDA
	RerankTokens int           // most tokens of a batch of pairs for the reranker; default 384 on a CPU, 65,536 with CUDA
	LinkPassages int           // most passages of a batch of the linker, over all its windows; default 2,048
	Wait         time.Duration // longest wait for a batch to fill; default 5 ms
	Workers      int           // batches that run at once; default: cores / the model's threads
	Log          *slog.Logger  // default: slog.Default()
	Gateway      Gateway       // calls models behind an API; needed by packs with such models
	Second       bool          // answer on the subjects of the second encoder
	Share        float64       // of the machine's processor time that bulk requests may take, in (0, 1]; 0: all
}

func (o ServerOptions) withDefaults(model *Model) ServerOptions {
	set := func(value *int, fallback int) {
		if *value <= 0 {
			*value = fallback
		}
	}
	set(&o.MaxBytes, 64<<20)
	set(&o.MaxSequences, 32<<10)
	set(&o.Batch, batch.Items)
	if model.provider == CUDA {
		set(&o.BatchTokens, 64<<10)
		set(&o.PairTokens, 64<<10)
		set(&o.RerankTokens, 64<<10)
	}
	set(&o.BatchTokens, batch.TextTokens)
	set(&o.PairTokens, batch.PairTokens)
	set(&o.RerankTokens, batch.RerankTokens)
	set(&o.LinkPassages, 2<<10)
	set(&o.Workers, max(1, runtime.GOMAXPROCS(0)/model.threads))
	if o.Wait <= 0 {
		o.Wait = 5 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Server answers the operations of a Model, in a queue group with other model servers. It is a
// lifecycle.Service.
type Server struct {
	*lifecycle.Func
	current atomic.Pointer[service] // the last run
}

// NewServer returns a server that is not started. The model must stay open while the server runs.
func NewServer(nc *nats.Conn, model *Model, o ServerOptions) *Server {
	o = o.withDefaults(model)
	s := &Server{}
	s.Func = lifecycle.NewFunc("model server", func(ctx context.Context) (lifecycle.Run, error) {
		r, err := serve(ctx, nc, model, o)
		if err != nil {
			return lifecycle.Run{}, err
		}
		s.current.Store(r)
		return lifecycle.Run{Done: r.done, Err: func() error { return nil }, Stop: r.stop}, nil
	})
	return s
}

// service is one run of a Server.
type service struct {
	nc      *nats.Conn
	model   *Model
	log     *slog.Logger
	load    *load
	slots   *fairness.Slots // to decode and tokenise
	metrics requestMetrics
	counts  requestCounts
	gateway Gateway

	// The queues of the graphs, which share the pool. Those of graphs that the pack does not have
	// are nil.
	pool       *batch.Pool
	encoding   *batch.Queue[sequence]
	sentences  *batch.Queue[sequence] // of the segmenter: same as encoding, unless it has its own encoder
	segmenting *batch.Queue[neighbours]
	scoring    *batch.Queue[textPair]
	reranking  *batch.Queue[textPair]
	linking    *batch.Queue[window]
	fusing     *batch.Queue[fusion]
	detecting  *batch.Queue[detectorInput]

	ctx      context.Context // of the held requests
	cancel   context.CancelFunc
	inFlight sync.WaitGroup
	workers  workerPool // runs the handlers of requests
	subs     []*nats.Subscription
	closed   []chan struct{} // one per subscription: closed after its last message was delivered
	done     chan struct{}
}

func serve(ctx context.Context, nc *nats.Conn, model *Model, bounds ServerOptions) (*service, error) {
	s := &service{
		nc: nc, model: model, log: bounds.Log, gateway: bounds.Gateway,
		slots:   fairness.NewSlots(runtime.GOMAXPROCS(0)),
		metrics: newRequestMetrics(),
		counts:  requestCounts{id: schema.NewID(), since: time.Now().UTC()},
		done:    make(chan struct{}),
	}
	bound := fairness.Amount{Count: bounds.MaxSequences, Bytes: bounds.MaxBytes}
	s.load = &load{fairness.NewSemaphore(fairness.Amount{}, bound), bound, s.metrics}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.openQueues(bounds)

	for _, o := range operations {
		if o.Of != "" || bounds.Second && !o.Second {
			continue // it has no subject, or the second encoder does not answer it
		}
		op, subject := o.Name, wire.ModelSubject(o.Name)
		if bounds.Second {
			subject = wire.SecondModelSubject(op)
		}
		if answers[op] == nil {
			return nil, errors.Join(fmt.Errorf("the model server has no code for the operation %s", op), s.cleanUp())
		}
		sub, err := nc.QueueSubscribe(subject, wire.ModelGroup, func(msg *nats.Msg) { s.accept(op, msg) })
		if err != nil {
			return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", subject, err), s.cleanUp())
		}
		closed := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(closed) })
		s.subs, s.closed = append(s.subs, sub), append(s.closed, closed)
	}
	flushCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(flushCtx); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to the model subjects: %w", err), s.cleanUp())
	}
	return s, nil
}

// openQueues creates a queue for each graph.
func (s *service) openQueues(o ServerOptions) {
	s.pool = batch.NewPool(o.Workers)
	if o.Share > 0 {
		s.pool.Bound(batch.NewShare(o.Share, s.model.threads, runtime.NumCPU(), batch.OthersBusy()))
	}
	options := func(graph string, cells int) batch.Options {
		return batch.Options{Graph: graph, MaxItems: o.Batch, MaxCells: cells, Wait: o.Wait}
	}
	encoder := func(graph string, m *embedder) *batch.Queue[sequence] {
		return batch.New(s.pool, options(graph, o.BatchTokens), func(q sequence) batch.Size { return batch.Tokens(len(q.ids)) }, m.encode)
	}
	if m := s.model.encoder; m != nil {
		s.encoding = encoder("encoder", m)
		s.sentences = s.encoding
	}
	if m := s.model.sentences; m != s.model.encoder {
		s.sentences = encoder("segmenter.encoder", m)
	}
	if m := s.model.segmenter; m != nil {
		s.segmenting = batch.New(s.pool, options("segmenter", o.Batch), func(neighbours) batch.Size { return batch.Tokens(1) }, m.score)
	}
	if m := s.model.pair; m != nil {
		s.scoring = batch.New(s.pool, options("pair", o.PairTokens), textPair.size, m.score)
	}
	if m := s.model.reranker; m != nil {
		size := textPair.size
		if s.model.provider != CUDA {
			size = textPair.exactSize // padding takes a core's time, and so does the mask that it needs
		}
		s.reranking = batch.New(s.pool, options("reranker", o.RerankTokens), size, m.score)
	}
	if m := s.model.linker; m != nil {
		s.linking = batch.New(s.pool, options("linker", o.LinkPassages), window.size, m.computeAttention)
	}
	if m := s.model.fuser; m != nil {
		fuser := options("fuser", o.BatchTokens)
		fuser.MaxItems = 1 // a run reads one question
		s.fusing = batch.New(s.pool, fuser, fusion.size, m.fuse)
	}
	if m := s.model.detector; m != nil {
		s.detecting = batch.New(s.pool, options("detector", o.Batch), func(detectorInput) batch.Size { return batch.Tokens(1) }, m.detect)
	}
}

// cleanUp cleans up after a failed start.
func (s *service) cleanUp() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.stop(ctx)
}

// minRequestBytes is the least that a held request counts, in bytes. It limits the number of held
// requests.
const minRequestBytes = 2 << 10

// accept accepts or refuses a message. It runs in the subscription's goroutine.
func (s *service) accept(op wire.ModelOp, msg *nats.Msg) {
	// A small message takes more memory than its bytes.
	lane, size := laneOf(msg.Data), max(len(msg.Data), minRequestBytes)
	if err := s.load.add(lane, size, 0); err != nil {
		s.counts.refused.Add(1)
		s.refuse(op, lane, msg, err)
		return
	}
	done := s.counts.begin()
	s.inFlight.Add(1)
	s.workers.run(func() {
		defer s.inFlight.Done()
		defer done()
		defer s.load.remove(size, 0)
		s.answer(op, lane, msg)
	})
}

// laneOf reads a request's lane without decoding the request. This module writes the lane before
// the texts. A request whose lane is not found that way is in the bulk lane.
func laneOf(data []byte) wire.Lane {
	data = wire.HeadOf(data)
	// The form that this module writes: the key is near the beginning and not after a nested value.
	// The quotes would be escaped if it were part of a string.
	const key = `"lane":"`
	if i := bytes.Index(data[:min(len(data), 256)], []byte(key)); i > 0 && data[0] == '{' && !bytes.ContainsAny(data[1:i], "{[") {
		if lane, _, found := bytes.Cut(data[i+len(key):], []byte(`"`)); found && string(lane) == string(wire.LaneInteractive) {
			return wire.LaneInteractive
		}
		return wire.LaneBulk
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return wire.LaneBulk
	}
	for {
		key, err := d.Token()
		if err != nil {
			return wire.LaneBulk
		}
		value, err := d.Token()
		if _, nested := value.(json.Delim); err != nil || nested {
			return wire.LaneBulk
		}
		if key == "lane" {
			if value == string(wire.LaneInteractive) {
				return wire.LaneInteractive
			}
			return wire.LaneBulk
		}
	}
}

// stop accepts no more messages and waits for the held requests. When ctx ends, it cancels them.
func (s *service) stop(ctx context.Context) error {
	defer close(s.done)
	var draining []chan struct{}
	for i, sub := range s.subs {
		// On a closed connection Drain fails, and no messages arrive.
		if err := sub.Drain(); err == nil {
			draining = append(draining, s.closed[i])
		}
	}
	for _, closed := range draining {
		select {
		case <-closed:
		case <-ctx.Done():
		}
	}
	for _, sub := range s.subs {
		_ = sub.Unsubscribe() // for those that did not drain in time
	}
	finished := make(chan struct{})
	go func() {
		s.inFlight.Wait()
		s.workers.stop()
		close(finished)
	}()
	var err error
	select {
	case <-finished:
	case <-ctx.Done():
		err = fmt.Errorf("model server: held requests were cut short: %w", ctx.Err())
	}
	s.cancel()
	<-finished
	s.pool.Close()
	if !s.nc.IsClosed() && len(s.subs) > 0 {
		// The last replies must be sent before the process exits.
		if flushErr := s.nc.FlushTimeout(2 * time.Second); flushErr != nil && err == nil {
			s.log.Warn("the last replies may not have been sent", "error", flushErr)
		}
	}
	return err
}
