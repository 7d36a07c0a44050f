package bus

// The replies to all requests of a connection arrive at one subscription, which keeps their order.
// With one for each request, every server of a cluster would learn of each, and of its end.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

// inbox receives the messages to the streams of the open requests of a connection.
type inbox struct {
	prefix string // of the streams' names
	sub    *nats.Subscription

	mu      sync.Mutex
	err     error                // why nothing more can arrive
	streams map[string]*incoming // by the rest of the name
}

// inboxes has the inboxes of the open connections that have sent requests.
var inboxes = struct {
	mu sync.Mutex
	of map[*nats.Conn]*inbox
}{of: map[*nats.Conn]*inbox{}}

// inboxOf returns the inbox of a connection. It ends with the connection.
func inboxOf(nc *nats.Conn) (*inbox, error) {
	inboxes.mu.Lock()
	defer inboxes.mu.Unlock()
	if in := inboxes.of[nc]; in != nil {
		return in, nil
	}
	in := &inbox{prefix: nc.NewInbox() + ".", streams: map[string]*incoming{}}
	var err error
	if in.sub, err = nc.Subscribe(in.prefix+"*.*", in.receive); err != nil {
		return nil, fmt.Errorf("listen for replies: %w", translate(err))
	}
	if err := in.sub.SetPendingLimits(-1, -1); err != nil { // each stream has limits of its own
		return nil, fmt.Errorf("set no limit for replies: %w", translate(err))
	}
	in.sub.SetClosedHandler(func(string) { in.end(nc, nats.ErrConnectionClosed) })
	if nc.IsClosed() { // perhaps before the handler was set
		return nil, translate(nats.ErrConnectionClosed)
	}
	inboxes.of[nc] = in
	return in, nil
}

// denyInbox ends a connection's inbox if err says that the server denies its subscription.
func denyInbox(nc *nats.Conn, err error) {
	inboxes.mu.Lock()
	in := inboxes.of[nc]
	inboxes.mu.Unlock()
	if in != nil && errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), in.prefix) {
		in.end(nc, err)
		_ = in.sub.Unsubscribe() // the server has none
	}
}

// end ends the inbox, and the requests that wait at it. The first reason counts.
func (in *inbox) end(nc *nats.Conn, why error) {
	inboxes.mu.Lock()
	if inboxes.of[nc] == in {
		delete(inboxes.of, nc)
	}
	inboxes.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err != nil {
		return
	}
	in.err = why
	for _, s := range in.streams {
		s.end(why)
	}
}

// open returns a new stream and its name, until forget is called.
func (in *inbox) open() (name string, s *incoming, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err != nil {
		return "", nil, fmt.Errorf("listen for replies: %w", translate(in.err))
	}
	token := rand.Text()
	s = &incoming{wake: make(chan struct{}, 1)}
	in.streams[token] = s
	return in.prefix + token, s, nil
}

func (in *inbox) forget(name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.streams, name[len(in.prefix):])
}

// receive gives a message to its stream. It ignores those to requests that have ended.
func (in *inbox) receive(msg *nats.Msg) {
	token, part, _ := strings.Cut(msg.Subject[len(in.prefix):], ".")
	in.mu.Lock()
	s := in.streams[token]
	in.mu.Unlock()
	if s != nil {
		s.add(part, msg)
	}
}

// incoming is the received messages of a stream.
type incoming struct {
	wake chan struct{} // there is something to read

	mu      sync.Mutex
	waiting []streamPart
	bytes   int
	err     error // why nothing more can arrive
}

// streamPart is a message to a part of a stream.
type streamPart struct {
	name string
	*nats.Msg
}

// streamMessages and streamBytes limit the messages of one stream that wait to be read. The reader
// does not block, so they are reached only when the process hardly runs.
const (
	streamMessages = 4 << 10
	streamBytes    = 16 << 20
)

// add adds a message. Above the limits, only the service's reply is kept.
func (s *incoming) add(name string, msg *nats.Msg) {
	s.mu.Lock()
	if name == wire.PartReply || len(s.waiting) < streamMessages && s.bytes+len(msg.Data) <= streamBytes {
		s.waiting = append(s.waiting, streamPart{name, msg})
		s.bytes += len(msg.Data)
	}
	s.mu.Unlock()
	s.wakeReader()
}

func (s *incoming) end(why error) {
	s.mu.Lock()
	s.err = why
	s.mu.Unlock()
	s.wakeReader()
}

func (s *incoming) wakeReader() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// read returns the messages that have arrived, in order. It waits for the first one until ctx ends
// or timeout fires.
func (s *incoming) read(ctx context.Context, timeout *time.Timer) ([]streamPart, error) {
	for {
		s.mu.Lock()
		out, err := s.waiting, s.err
		s.waiting, s.bytes = nil, 0
		s.mu.Unlock()
		switch {
		case len(out) > 0:
			return out, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-s.wake:
		case <-timeout.C:
			return nil, errHeartbeatTimeout
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
