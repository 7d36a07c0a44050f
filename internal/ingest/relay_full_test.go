package ingest

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{}) }

// TestAFullSubjectIsNotAFullStream: JetStream refuses both with the same code; only the description
// differs.
func TestAFullSubjectIsNotAFullStream(t *testing.T) {
	server, ctx := localtest.NATS(t), waittest.Context(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		limits jetstream.StreamConfig
		full   bool
	}{
		{"subject", jetstream.StreamConfig{MaxMsgsPerSubject: 1, DiscardNewPerSubject: true}, true},
		{"stream", jetstream.StreamConfig{MaxMsgs: 1}, false},
		{"bytes", jetstream.StreamConfig{MaxBytes: 150}, false},
	} {
		c.limits.Name, c.limits.Subjects, c.limits.Discard = c.name, []string{c.name}, jetstream.DiscardNew
		if _, err := js.CreateStream(ctx, c.limits); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(ctx, c.name, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		_, err := js.Publish(ctx, c.name, make([]byte, 100))
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.ErrorCode != storeFailed || subjectFull(refused) != c.full {
			t.Errorf("full by its %s: %v", c.name, err)
		}
	}
}
