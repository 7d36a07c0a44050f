package workflows_test

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// replays runs today's code on the recorded histories of prefix, of which there must be at least
// least: a workflow that runs while a worker is updated must go on. code has the workflows by name.
func replays(t *testing.T, prefix string, least int, code map[string]any) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + prefix + "_*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < least {
		t.Errorf("only %d recorded histories of %s", len(files), prefix)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
			if err != nil {
				t.Fatal(err)
			}
			for name, w := range code {
				replayer.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
			}
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
}
