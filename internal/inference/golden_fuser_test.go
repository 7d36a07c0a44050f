package inference

// This file compares the pack's fuser with its trainer's scores, to 1e-4.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestGoldenFusers tests passages that are read together, with every setting of eq. 3, through the
// server. Questions and passages differ in length, so the result must not depend on padding or on
// the question's length.
func TestGoldenFusers(t *testing.T) {
	m := open(t)
	data, err := os.ReadFile(filepath.Join(packDir(t), "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Fuser []struct {
			Question string
			Texts    []string
			Settings []struct {
				Tokens       int
				WithQuestion bool `json:"with_question"`
				Scores       []float32
			}
		}
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if (m.fuser != nil) != (len(g.Fuser) > 0) {
		t.Fatalf("the pack has a graph fuser: %v, but %d goldens of it", m.fuser != nil, len(g.Fuser))
	}
	nc, _ := serving(t, m, ServerOptions{})
	client := modelclient.New(nc, modelclient.Options{})
	worst := 0.0
	for _, f := range g.Fuser {
		for _, s := range f.Settings {
			scores, _, err := client.Fuse(t.Context(), wire.LaneInteractive, f.Question, f.Texts, s.Tokens, s.WithQuestion)
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, near(t, fmt.Sprintf("%q, %d texts, %d tokens, with question %v", f.Question, len(f.Texts), s.Tokens, s.WithQuestion), scores, s.Scores))
		}
	}
	t.Logf("largest difference %.1e", worst)
}
