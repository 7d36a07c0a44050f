package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
)

func TestStackRunsWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	stack, err := local.NewStack(local.StackOptions{Dir: dir})
	must(t, err)
	must(t, stack.Start(bounded(t)))
	given := local.Given{DatabaseURL: stack.DatabaseURL(), NATSURL: stack.NATSURL(), TemporalAddress: stack.TemporalAddress()}

	// A second one that is given these servers starts none, and finds them in order.
	other := filepath.Join(dir, "other")
	second, err := local.NewStack(local.StackOptions{Dir: other, Given: given})
	must(t, err)
	must(t, second.Start(bounded(t)))
	if got := (local.Given{DatabaseURL: second.DatabaseURL(), NATSURL: second.NATSURL(), TemporalAddress: second.TemporalAddress()}); got != given {
		t.Errorf("given servers: got %v, want %v", got, given)
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a stack of given servers made its directory: %v", err)
	}
	for _, f := range local.Check(bounded(t), dir, given) {
		if !f.OK {
			t.Errorf("%s: %s", f.Part, f.Found)
		}
		if strings.Contains(f.Found, "@") {
			t.Errorf("%s shows a secret: %s", f.Part, f.Found)
		}
	}
	must(t, second.Stop(bounded(t)))
	must(t, stack.Stop(bounded(t)))

	for _, f := range local.Check(bounded(t), dir, given) {
		down := f.Part != "data directory" && f.Part != "ONNX Runtime"
		if f.OK == down {
			t.Errorf("%s with all servers stopped: OK is %v: %s", f.Part, f.OK, f.Found)
		}
		if !f.OK && f.Remedy == "" {
			t.Errorf("%s: no remedy", f.Part)
		}
	}
}

func TestStackEndsWithAPart(t *testing.T) {
	t.Parallel()
	dir := localtest.Dir(t)
	stack, err := local.NewStack(local.StackOptions{Dir: dir, Given: local.Given{DatabaseURL: "postgres://elsewhere", NATSURL: "nats://elsewhere"}})
	must(t, err)
	must(t, stack.Start(bounded(t)))
	text, err := os.ReadFile(filepath.Join(dir, "temporal", "pid"))
	must(t, err)
	must(t, kill(string(text)))
	<-stack.Done()
	if err := stack.Err(); !contains(err, "temporal") || !contains(err, "killed") {
		t.Errorf("Err: got %v, want that temporal was killed", err)
	}
}
