package inference

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestTheSecondEncoderAnswersOnSubjectsOfItsOwn: two packs are served at once, and each client gets
// replies of its own.
func TestTheSecondEncoderAnswersOnSubjectsOfItsOwn(t *testing.T) {
	dir := inferencetest.Pack(t, func(manifest string) string { return strings.Replace(manifest, "space: ", "space: second-", 1) })
	second, err := Open(Options{Pack: dir, Library: libraryPath(t), Threads: 1, Second: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	nc, _ := serving(t, openFull(t), ServerOptions{})
	server := NewServer(nc, second, ServerOptions{Second: true, Share: 1})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(waittest.Context(t)); err != nil {
			t.Error(err)
		}
	})
	ctx := waittest.Context(t)
	client := modelclient.New(nc, modelclient.Options{})
	info, err := client.Second().Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want := []wire.ModelOp{wire.OpEncode, wire.OpLink}; !slices.Equal(info.Operations, want) || !strings.HasPrefix(info.Space, "second-") {
		t.Errorf("the second encoder serves %v of space %s, want %v", info.Operations, info.Space, want)
	}
	texts := slices.Repeat([]string{"Bees live in colonies."}, 40) // several parts
	for _, ask := range []struct {
		client *modelclient.Client
		second bool
	}{{client, false}, {client.Second(), true}} {
		vectors, space, err := ask.client.Encode(ctx, wire.LaneBulk, texts)
		if err != nil {
			t.Fatal(err)
		}
		if vectors.Len() != len(texts) || strings.HasPrefix(space, "second-") != ask.second {
			t.Errorf("%d vectors of space %s, second %v", vectors.Len(), space, ask.second)
		}
	}
}

func TestAPackWithoutAnEncoderIsNoSecondOne(t *testing.T) {
	dir := inferencetest.Pack(t, func(manifest string) string {
		head, rest, _ := strings.Cut(manifest, "encoder:\n")
		_, rest, _ = strings.Cut(rest, "pair:") // remove the encoder and the segmenter
		return head + "pair:" + rest
	}, inferencetest.Without("linker"))
	_, err := Open(Options{Pack: dir, Library: libraryPath(t), Second: true})
	if !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "has no encoder") {
		t.Errorf("got %v", err)
	}
}
