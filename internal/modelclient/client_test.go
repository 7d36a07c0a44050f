package modelclient_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestServersThatDisagreeAreNotWaitedOut: vectors of two models do not go into
// one result, and no number of tries makes the models one.
func TestServersThatDisagreeAreNotWaitedOut(t *testing.T) {
	nc, err := nats.Connect(localtest.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var served atomic.Int64
	if _, err := nc.Subscribe(wire.ModelSubject(wire.OpEncode), func(msg *nats.Msg) {
		request, err := wire.Decode[wire.EncodeRequest](msg.Data)
		if err != nil {
			t.Error(err)
			return
		}
		reply := wire.EncodeReply{Envelope: wire.Header(), Space: []string{"one", "two"}[served.Add(1)%2],
			Vectors: wire.Vectors{Dimension: 1, Data: make([]float32, len(request.Texts))}}
		data, err := json.Marshal(reply)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	_, _, err = modelclient.New(nc, modelclient.Options{}).Encode(t.Context(), wire.LaneBulk, make([]string, 501))
	if !errors.Is(err, modelclient.ErrDisagree) || errors.Is(err, schema.ErrConflict) || served.Load() != 2 {
		t.Errorf("got %v after %d requests", err, served.Load())
	}
}

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{}) }
