package inference

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestLaneIsReadAsItIsDecoded: the lane of a request is found in the form that this module writes
// and in any other, and only in the request's own key.
func TestLaneIsReadAsItIsDecoded(t *testing.T) {
	for data, want := range map[string]wire.Lane{
		`{"v":1,"lane":"interactive","texts":["a"]}`:                    wire.LaneInteractive,
		`{"v":1,"lane":"bulk","texts":["a"]}`:                           wire.LaneBulk,
		`{"v":1, "lane" : "interactive"}`:                               wire.LaneInteractive,
		`{"question":"\"lane\":\"interactive\"","lane":"bulk"}`:         wire.LaneBulk,
		`{"texts":["lane"],"lane":"interactive"}`:                       wire.LaneBulk,
		`{"of":{"lane":"interactive"},"lane":"bulk"}`:                   wire.LaneBulk,
		`{"question":"a [b] {c}","lane":"interactive"}`:                 wire.LaneInteractive,
		`{"a":"` + strings.Repeat("x", 400) + `","lane":"interactive"}`: wire.LaneInteractive,
		`{"lane":"interactive`:                                          wire.LaneBulk, `"lane":"interactive"`: wire.LaneBulk, ``: wire.LaneBulk, `[]`: wire.LaneBulk,
	} {
		if got := laneOf([]byte(data)); got != want {
			t.Errorf("%.60s: %s, want %s", data, got, want)
		}
	}
	data, err := wire.Encode(wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Texts: []string{"a"}})
	if got := laneOf(data); err != nil || got != wire.LaneInteractive {
		t.Errorf("%s: %s, %v", data, got, err)
	}
}
