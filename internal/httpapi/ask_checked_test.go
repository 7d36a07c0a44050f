package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// A client that only appends the pieces has the checked answer in the end: pieces that are not part
// of it are retracted.
func TestWhatWasToldIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		name         string
		pending      []Progress
		answer, kept string
		fails, back  bool
	}{
		{"the same", []Progress{delta("Five ", false), delta("days. ", false)}, "Five days.", "Five days. ", false, false},
		{"nothing proves it", []Progress{delta("Nine days.", false)}, schema.NoAnswer, schema.NoAnswer, false, true},
		{"a sentence less", []Progress{delta("Five days. Or nine.", false)}, "Five days.", "Five days.", false, true},
		{"begun again", []Progress{delta("Nine", false), delta("Five days.", true)}, "Five days.", "Five days.", false, false},
		{"another round's", []Progress{delta("Nine", false), delta("Six days.", true)}, "Five days.", "Five days.", false, true},
		{"dropped", []Progress{delta(strings.Repeat("x", feedText+1), false)}, "Five days.", "", false, false},
		{"nothing told", nil, "Five days.", "", false, false},
		{"it fails", []Progress{delta("Nine", false)}, "", "", true, true},
		{"it fails untold", []Progress{stage("generate", 1)}, "", "", true, false},
	} {
		url := askServer(t, Options{}, func(_ context.Context, _ schema.Query, progress func(Progress)) (schema.Answer, error) {
			for _, p := range c.pending {
				progress(p)
			}
			if c.fails {
				return schema.Answer{}, &schema.RemoteError{Code: schema.CodeUnavailable, Message: "gone"}
			}
			return schema.Answer{Answer: c.answer}, nil
		})
		events := eventsOf(t, postAsk(t, t.Context(), url, "text/event-stream", api.Query{Collection: "c", Query: "How many?"}).Body)
		kept, back := "", false
		for i, e := range events {
			name, data, _ := strings.Cut(e, " ")
			if name != api.EventDelta {
				continue
			}
			var d api.DeltaEvent
			if err := json.Unmarshal([]byte(data), &d); err != nil {
				t.Fatal(err)
			}
			if d.Restart {
				kept = ""
			}
			kept += d.Text
			if d.Checked {
				back = true
				if i != len(events)-2 {
					t.Errorf("%s: taken back at %d of %q", c.name, i, events)
				}
			}
		}
		if kept != c.kept || back != c.back {
			t.Errorf("%s: kept %q, taken back %t: %q", c.name, kept, back, events)
		}
	}
}
