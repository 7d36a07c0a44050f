package bus

// The state of the JetStream streams and of their consumers.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// streams are the names of all streams that EnsureStreams creates.
var streams = []string{wire.StreamIngest, wire.StreamQuestions, wire.StreamEvents}

// consumersShown bounds the consumers that are listed per stream, since there may be many
// short-lived ones.
const consumersShown = 50

// Queues returns the state of the streams and their consumers. A stream that does not exist is left
// out.
func Queues(ctx context.Context, nc *nats.Conn) ([]schema.QueueState, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	out := []schema.QueueState{}
	for _, name := range streams {
		q, err := queue(ctx, js, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("look into stream %s: %w", name, err)
		}
		out = append(out, q)
	}
	return out, nil
}

func queue(ctx context.Context, js jetstream.JetStream, name string) (schema.QueueState, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return schema.QueueState{}, err
	}
	state := stream.CachedInfo().State
	q := schema.QueueState{Name: name, Messages: state.Msgs, Bytes: state.Bytes, Subjects: state.NumSubjects, Consumers: []schema.ConsumerState{}}
	if state.Msgs > 0 {
		q.Oldest = utc(&state.FirstTime)
	}
	listing, stop := context.WithCancel(ctx)
	defer stop()
	list := stream.ListConsumers(listing)
	for info := range list.Info() {
		if len(q.Consumers) == consumersShown {
			break
		}
		q.Consumers = append(q.Consumers, schema.ConsumerState{Name: info.Name, Lag: info.NumPending, Unconfirmed: info.NumAckPending,
			Redelivered: info.NumRedelivered, Delivered: info.Delivered.Consumer, Asking: info.NumWaiting, Last: utc(info.Delivered.Last)})
	}
	if err := list.Err(); err != nil && len(q.Consumers) < consumersShown {
		return q, fmt.Errorf("list its consumers: %w", err)
	}
	return q, nil
}

func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	t := at.UTC()
	return &t
}

// TenantQueues returns how many messages of a tenant wait in the work streams.
func TenantQueues(ctx context.Context, nc *nats.Conn, tenant uuid.UUID) ([]schema.TenantQueue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	out := []schema.TenantQueue{}
	for _, of := range [][2]string{{wire.StreamIngest, wire.IngestSubject(tenant)}, {wire.StreamQuestions, wire.QuestionsSubject(tenant)}} {
		q := schema.TenantQueue{Name: of[0]}
		stream, err := js.Stream(ctx, q.Name)
		if err == nil {
			var info *jetstream.StreamInfo
			if info, err = stream.Info(ctx, jetstream.WithSubjectFilter(of[1])); err == nil {
				q.Messages = info.State.Subjects[of[1]]
			}
		}
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return out, fmt.Errorf("look into stream %s: %w", q.Name, err)
		}
		out = append(out, q)
	}
	return out, nil
}
