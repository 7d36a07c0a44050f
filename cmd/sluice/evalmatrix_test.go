package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/matrix"
	"github.com/sluice-rag/sluice/schema"
)

// TestSettingsOfTheLanguageModelAreFlags: `sluice up` has a flag for every setting of a matrix. The
// error for an invalid value names its row.
func TestSettingsOfTheLanguageModelAreFlags(t *testing.T) {
	t.Chdir("../..") // where the shipped model packs are
	for setting, value := range map[string]string{"provider": "extractive", "fallback": "anthropic,extractive", "timeout": "5s", "max_tokens": "7", "reasoning_tokens": "8",
		"base_url": "http://127.0.0.1:1/v1", "model": "m", "format": "text", "price": "1/2", "anthropic_base_url": "http://127.0.0.1:1", "anthropic_model": "n", "anthropic_price": "3/4"} {
		run := &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{}, rows: []matrix.Row{{Name: "usual"}, {Name: "other", Model: map[string]string{setting: value}}}}
		if err := run.ownServers(t.TempDir()); err != nil || len(run.servers) != 2 || run.servers[0].space != run.servers[1].space {
			t.Errorf("%s: servers are %+v, %v", setting, run.servers, err)
			continue
		}
		// The timeout does not affect results.
		if same := run.servers[0].identity == run.servers[1].identity; same != (setting == "timeout") {
			t.Errorf("%s: what was kept of one model counts for the other: %v", setting, same)
		}
	}
	run := &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{}, rows: []matrix.Row{{Name: "wrong", Model: map[string]string{"max_tokens": "many"}}}}
	if err := run.ownServers(t.TempDir()); err == nil || !strings.Contains(err.Error(), "wrong") || !strings.Contains(err.Error(), "llm-max-tokens") {
		t.Errorf("a wrong value: %v", err)
	}
	run = &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{Packs: []string{"default", "absent"}}, rows: []matrix.Row{{Name: "usual"}}}
	var wrong *schema.FieldError
	if err := run.ownServers(t.TempDir()); !errors.As(err, &wrong) || wrong.Field != "packs[1]" {
		t.Errorf("a pack that is not there: %v", err)
	}
}

// TestKeysAreNotInWhatIsKept: the hash covers whether there is a key, not the key itself.
func TestKeysAreNotInWhatIsKept(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("SLUICE_LLM_API_KEY", "secret-of-the-test")
	run := &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{}, rows: []matrix.Row{{Name: "usual"}}}
	if err := run.ownServers(t.TempDir()); err != nil || len(run.servers) != 1 || strings.Contains(run.servers[0].identity, "secret") {
		t.Errorf("the servers are %+v, %v", run.servers, err)
	}
}

// TestWhatAMatrixSaysIsNoFlag: a flag for which the matrix file has a field is refused by name.
func TestWhatAMatrixSaysIsNoFlag(t *testing.T) {
	usual := evalCommand{Matrix: "m.yaml", Split: "test", Seed: 1, Language: "en", PriceIn: 10, PriceOut: 30}
	if err := usual.withMatrix(); err != nil {
		t.Errorf("nothing but the file: %v", err)
	}
	for flag, change := range map[string]func(*evalCommand){
		"plan": func(c *evalCommand) { c.Plan = []string{"naive"} }, "split": func(c *evalCommand) { c.Split = "dev" }, "answers": func(c *evalCommand) { c.Answers = true },
		"dataset": func(c *evalCommand) { c.Datasets = []string{"d"} }, "json": func(c *evalCommand) { c.JSON = "-" }, "store": func(c *evalCommand) { c.Store = true },
		"judge": func(c *evalCommand) { c.Judge = true }, "judge-labels": func(c *evalCommand) { c.Labels = "l.jsonl" },
	} {
		c := usual
		change(&c)
		var wrong *schema.FieldError
		if err := c.withMatrix(); !errors.As(err, &wrong) || wrong.Field != flag {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestOneModelJudgesAllRows: rows with different language models must not be judged by different
// models.
func TestOneModelJudgesAllRows(t *testing.T) {
	t.Chdir("../..")
	rows := []matrix.Row{{Name: "usual"}, {Name: "again"}, {Name: "other", Model: map[string]string{"model": "m"}}}
	for judge, field := range map[bool]string{false: "", true: "judge"} {
		run := &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{Judge: judge}, rows: rows}
		err := run.ownServers(t.TempDir())
		var wrong *schema.FieldError
		if errors.As(err, &wrong) != judge || judge && (wrong.Field != field || !strings.Contains(err.Error(), "other")) {
			t.Errorf("judge %v: %v", judge, err)
		}
	}
	run := &matrixRun{evalCommand: &evalCommand{}, file: &matrix.File{Judge: true}, rows: rows[:2]}
	if err := run.ownServers(t.TempDir()); err != nil || len(run.servers) != 1 {
		t.Errorf("rows with one model: %+v, %v", run.servers, err)
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		spent       time.Duration
		done, total int
		want        time.Duration
	}{{0, 0, 10, 0}, {10 * time.Second, 5, 20, 30 * time.Second}, {time.Minute, 10, 10, 0}} {
		if got := remaining(c.spent, c.done, c.total); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestDatasetsThatAreNotThereAreNamed: the error says what to do.
func TestDatasetsThatAreNotThereAreNamed(t *testing.T) {
	c := &evalCommand{Matrix: "../../examples/papers/sage.yaml", Split: "test", Seed: 1, Language: "en", PriceIn: 10, PriceOut: 30, Root: t.TempDir(), DryRun: true,
		Out: filepath.Join(t.TempDir(), "out")}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "datasets[0]") || !strings.Contains(err.Error(), "fairytaleqa-test") || !strings.Contains(err.Error(), "--datasets") {
		t.Errorf("the error is %v", err)
	}
}
