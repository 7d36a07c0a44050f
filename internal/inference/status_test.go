package inference

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestServerReportsItsRequests tests the counts of requests and of the batches of each graph.
func TestServerReportsItsRequests(t *testing.T) {
	nc, server := serving(t, open(t), ServerOptions{Wait: time.Millisecond, MaxSequences: 100})
	before := server.State()
	if before.ID == uuid.Nil || before.Service != wire.ModelService || before.Served != 0 || before.Model.MaxSequences != 100 || before.Model.Pack == "" {
		t.Errorf("at first it tells %+v", before)
	}
	reply := receive[wire.EncodeReply](t, send(t, nc, wire.OpEncode, encodeRequest(wire.LaneBulk, time.Time{}, "Bees live in colonies.", "So do ants, in nests.")))
	if reply.Error != nil {
		t.Fatal(reply.Error)
	}
	if err := server.Stop(t.Context()); err != nil { // requests are counted after their reply is sent
		t.Fatal(err)
	}
	s := server.State()
	if s.Served != 1 || s.Millis <= 0 || s.Running != 0 || s.Waiting != 0 || s.Model.HeldBytes != 0 || s.Model.HeldSequences != 0 {
		t.Errorf("it tells %+v", s)
	}
	var encoder schema.GraphState
	for _, g := range s.Model.Graphs {
		if g.Graph == "encoder" {
			encoder = g
		}
	}
	tokens := int64(0)
	for _, n := range reply.Tokens {
		tokens += int64(n)
	}
	if encoder.Batches < 1 || encoder.Items != 2 || encoder.Tokens < tokens || encoder.Millis <= 0 || encoder.Interactive+encoder.Bulk != 0 {
		t.Errorf("its encoder did %+v, of %d tokens", encoder, tokens)
	}
}
