package main

// This file has the two simulated services of the part workers, which only wait: a model server and
// a language model. Their clients are as busy as with real ones, but the processor is not.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

// waitingSpace is the name of the vector space of simulated model servers.
const waitingSpace = "waiting"

// waitingModels is a simulated model server. It answers encode, segment and info in the queue group
// of the real ones. Encode and segment take a fixed time; vectors depend only on the texts.
type waitingModels struct {
	service *atomic.Int64  // nanoseconds that a request takes
	slots   chan struct{}  // one for each running request; nil: no limit
	work    sync.WaitGroup // requests in progress
	stop    context.CancelFunc
	subs    []*nats.Subscription
}

// newWaitingModels starts a server. slots is how many requests run at once; 0: no limit.
func newWaitingModels(nc *nats.Conn, service *atomic.Int64, slots int) (*waitingModels, error) {
	ctx, stop := context.WithCancel(context.Background())
	m := &waitingModels{service: service, stop: stop}
	if slots > 0 {
		m.slots = make(chan struct{}, slots)
	}
	err := errors.Join(serveAfter(ctx, m, nc, wire.OpEncode, waitingEncode), serveAfter(ctx, m, nc, wire.OpSegment, waitingSegment), serveAfter(ctx, m, nc, wire.OpInfo, waitingInfo))
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a waiting model server: %w", err), m.close())
	}
	return m, nil
}

// serveAfter subscribes to an operation.
func serveAfter[Request, Reply any](ctx context.Context, m *waitingModels, nc *nats.Conn, op wire.ModelOp, answer func(Request) Reply) error {
	sub, err := nc.QueueSubscribe(wire.ModelSubject(op), wire.ModelGroup, func(msg *nats.Msg) {
		m.work.Go(func() {
			var r Request
			if json.Unmarshal(msg.Data, &r) != nil || op != wire.OpInfo && !m.wait(ctx) {
				return // the caller asks again
			}
			if data, err := json.Marshal(answer(r)); err == nil {
				_ = msg.Respond(data) // if the connection is closed, nobody waits for it
			}
		})
	})
	if err == nil {
		m.subs = append(m.subs, sub)
	}
	return err
}

// wait simulates the work. It returns false if it was cancelled.
func (m *waitingModels) wait(ctx context.Context) bool {
	if m.slots != nil {
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		case <-ctx.Done():
			return false
		}
	}
	return pauseFor(ctx, time.Duration(m.service.Load())) == nil
}

// close stops taking requests, and cancels those in progress.
func (m *waitingModels) close() error {
	var errs []error
	for _, sub := range m.subs {
		closed := sub.StatusChanged(nats.SubscriptionClosed)
		if err := sub.Drain(); err != nil {
			errs = append(errs, fmt.Errorf("stop a waiting model server: %w", err))
			continue
		}
		<-closed // no handler starts any more
	}
	m.stop()
	m.work.Wait()
	return errors.Join(errs...)
}

func waitingEncode(r wire.EncodeRequest) wire.EncodeReply {
	out := wire.EncodeReply{Envelope: wire.Header(), Space: waitingSpace, Vectors: wire.Vectors{Dimension: dimension}}
	for _, text := range r.Texts {
		out.Vectors.Data = append(out.Vectors.Data, waitingVector(text)...)
		out.Tokens = append(out.Tokens, max(1, wordsIn(text)))
	}
	return out
}

// waitingVector returns a unit vector that depends only on the text.
func waitingVector(text string) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it cannot fail
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	v, squares := make([]float32, dimension), 0.0
	for i := range v {
		x := random.NormFloat64()
		v[i], squares = float32(x), squares+x*x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(squares))
	}
	return v
}

// waitingSegment cuts after every fourth sentence.
func waitingSegment(r wire.SegmentRequest) wire.SegmentReply {
	out := wire.SegmentReply{Envelope: wire.Header(), Model: waitingSpace, Threshold: 0.5, Scores: make([][]float32, len(r.Runs))}
	for i, run := range r.Runs {
		out.Scores[i] = make([]float32, max(0, len(run)-1))
		for j := range out.Scores[i] {
			if j%4 != 3 {
				out.Scores[i][j] = 1
			}
		}
	}
	return out
}

func waitingInfo(wire.ModelInfoRequest) wire.ModelInfo {
	return wire.ModelInfo{Envelope: wire.Header(), Pack: waitingSpace, Version: "1", Space: waitingSpace, Dimension: dimension, MaxTokens: 512,
		Provider: "cpu", Operations: []wire.ModelOp{wire.OpEncode, wire.OpSegment}}
}

// waitingLLM is a simulated language model with OpenAI's API. It returns the same reply to every
// request after a fixed time.
type waitingLLM struct {
	server http.Server
	url    string
	ended  chan error
}

// waitingReply is its reply: a paraphrase of a question.
const waitingReply = `{"question":"what is asked, in other words"}`

func newWaitingLLM(service time.Duration) (*waitingLLM, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a waiting language model: %w", err)
	}
	reply, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion", "model": waitingSpace,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": waitingReply}}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a waiting language model: %w", err), l.Close())
	}
	m := &waitingLLM{url: "http://" + l.Addr().String() + "/v1", ended: make(chan error, 1)}
	m.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pauseFor(r.Context(), service) != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	})
	go func() { m.ended <- m.server.Serve(l) }()
	return m, nil
}

func (m *waitingLLM) close() error {
	err := m.server.Close()
	if ended := <-m.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// pauseFor waits, or returns an error if ctx ends.
func pauseFor(ctx context.Context, how time.Duration) error {
	timer := time.NewTimer(how)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
