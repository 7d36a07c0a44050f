package local_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
)

// TestNATSStoresAgainAfterAFullDisk, with the same address and clients, and without a manual
// restart.
func TestNATSStoresAgainAfterAFullDisk(t *testing.T) {
	t.Parallel()
	disk := localtest.Disk(t, 64<<20)
	n, err := local.StartNATS(t.Context(), local.NATSOptions{Dir: filepath.Join(disk, "nats")})
	must(t, err)
	t.Cleanup(func() { must(t, n.Stop(t.Context())) })
	nc, err := nats.Connect(n.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	must(t, err)
	stored := 0
	publish := func() bool {
		_, err := js.Publish(t.Context(), "s", make([]byte, 64<<10))
		if err == nil {
			stored++
		}
		return err == nil
	}
	if !publish() {
		t.Fatal("nothing is stored on an empty disk")
	}
	filler := filepath.Join(disk, "filler")
	localtest.Fill(t, filler)
	for publish() {
	}
	for n.Trouble() == nil {
		publish()
	}
	must(t, os.Remove(filler))
	for n.Trouble() != nil || !publish() {
	}
	s, err := js.Stream(t.Context(), "S")
	must(t, err)
	info, err := s.Info(t.Context())
	must(t, err)
	if info.State.Msgs < uint64(stored) {
		t.Errorf("the stream has %d of %d messages", info.State.Msgs, stored)
	}
}
