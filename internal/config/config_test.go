package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/schema"
)

// settingsFile writes a settings file.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, file string, args ...string) (IngestWorker, error) {
	t.Helper()
	settings, _, err := read(t, file, args...)
	return settings, err
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	t.Setenv("SLUICE_NATS_URL", "nats://env")
	t.Setenv("SLUICE_INGEST_BATCHES", "7")
	got, err := load(t, "nats-url: nats://file\ningest_lease: 5s\ningest-batches: 9\nlisten: 0.0.0.0:80\n", "--ingest-batches=8",
		"--database-url=postgres://x", "--temporal-address=x:1")
	if err != nil {
		t.Fatal(err)
	}
	if got.NATSURL != "nats://env" || got.IngestBatches != 8 || got.IngestLease != 5*time.Second || got.IngestBatchSize != 64 {
		t.Errorf("got %+v", got)
	}
}

func TestBadFileNamesTheSetting(t *testing.T) {
	for _, file := range []string{"nats-uri: x\n", "nats-url: [a]\n", "nats-url: {\n"} {
		if _, err := load(t, file); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%q gave %v", file, err)
		}
	}
	if _, err := load(t, "ingest-lease: soon\n"); err == nil {
		t.Error("a malformed duration was taken")
	}
	t.Setenv("SLUICE_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	if _, err := Read(nil); err == nil {
		t.Error("a named file that is missing was ignored")
	}
}

// TestEverySettingMayStandInTheFile: the file may have every setting that a program reads from a
// variable.
func TestEverySettingMayStandInTheFile(t *testing.T) {
	known := Known()
	for _, program := range []any{&IngestWorker{}, &QueryWorker{}, &LLMGateway{}, &GPUSegmenter{}} {
		parser, err := kong.New(program, kong.NoDefaultHelp())
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range parser.Model.Flags {
			if !slices.Contains(known, flag.Name) {
				t.Errorf("%T reads %s, which sluice.yaml may not have", program, flag.Name)
			}
		}
	}
	got, err := load(t, "keep-questions: 30\npublic-url: https://sluice.example\n", "--database-url=postgres://x", "--nats-url=nats://x", "--temporal-address=x:1")
	if err != nil || got.KeepQuestions != 30 {
		t.Errorf("questions are kept %d days, %v", got.KeepQuestions, err)
	}
}

func TestRequireNamesTheVariable(t *testing.T) {
	var missing *schema.FieldError
	if err := (Connections{}).Validate(); !errors.As(err, &missing) || missing.Field != "SLUICE_DATABASE_URL" {
		t.Errorf("got %v", err)
	}
}

// TestTheDefaultForQuestionsGivesWayToTheLedger: a value that is set for questions does not.
func TestTheDefaultForQuestionsGivesWayToTheLedger(t *testing.T) {
	for r, want := range map[Retention]int{
		{KeepQuestions: 365, KeepLLMCalls: 90}: 365, {KeepQuestions: 365, KeepLLMCalls: 500}: 500, {KeepQuestions: 365}: 0,
		{KeepQuestions: 100, KeepLLMCalls: 500}: 100, {KeepLLMCalls: 90}: 0,
	} {
		if got := r.QuestionDays(); got != want {
			t.Errorf("%+v keeps questions for %d days, want %d", r, got, want)
		}
	}
	got, err := load(t, "", "--database-url=postgres://x", "--nats-url=nats://x", "--temporal-address=x:1")
	if err != nil || got.KeepQuestions != defaultQuestions {
		t.Errorf("the default is %d, %v", got.KeepQuestions, err)
	}
}
