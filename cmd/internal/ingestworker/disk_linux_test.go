package ingestworker

// The effect of a full disk on acknowledged documents.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
)

// TestAFullDiskOnlyHoldsUpWhatWasAcknowledged: JetStream's disk fills up during an ingest, and when
// there is room again all documents become ready, without a restart by hand.
func TestAFullDiskOnlyHoldsUpWhatWasAcknowledged(t *testing.T) {
	disk := localtest.Disk(t, 48<<20)
	w := newWorldAt(t, localtest.Database(t), filepath.Join(disk, "nats"))
	w.addTenant()
	w.start()
	w.uploadAll(someDocuments(10))
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	w.ok(err)
	for _, size := range []int{1 << 20, 512} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	w.ok(f.Close())
	uploaded := 10
	w.await("JetStream meets the full disk", func() bool {
		w.upload(fmt.Sprintf("more-%d.md", uploaded), document("more", 2))
		uploaded++
		return w.bus.Trouble() != nil
	})
	for range 20 { // they are acknowledged all the same, because Postgres has space
		w.upload(fmt.Sprintf("more-%d.md", uploaded), document("more", 2))
		uploaded++
	}
	w.ok(os.Remove(filler))
	w.awaitStates(map[schema.State]int{schema.StateReady: uploaded})
	w.checkStored()
}
