package apiserver

import (
	"testing"

	"github.com/sluice-rag/sluice/schema/api"
)

// TestChangesThatNobodyReadsAreCounted: the newest changes are kept, and the dropped ones are
// counted.
func TestChangesThatNobodyReadsAreCounted(t *testing.T) {
	changes := make(chan *api.ChangeEvent, 4)
	const sent = 11
	for i := range sent {
		put(changes, &api.ChangeEvent{Kind: string(rune('a' + i))})
	}
	close(changes)
	kinds, dropped := "", 0
	for c := range changes {
		kinds += c.Kind
		dropped += c.Dropped
	}
	if kinds != "hijk" || len(kinds)+dropped != sent {
		t.Errorf("got %q and %d dropped of %d", kinds, dropped, sent)
	}
}
