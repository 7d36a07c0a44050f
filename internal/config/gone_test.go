package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var connected = []string{"--database-url=postgres://x", "--nats-url=nats://x", "--temporal-address=x:1"}

// TestSettingsThatAreGoneAreWarnedOf: wherever they stand, once each, and the program starts.
func TestSettingsThatAreGoneAreWarnedOf(t *testing.T) {
	t.Setenv("SLUICE_EVENTS_AGE", "1h")
	t.Setenv("SLUICE_INGEST_PURGE", "1h")
	settings, source, err := read(t, "curate_after: 1h\ningest-purge: 2h\ningest-batches: 9\n",
		append([]string{"--query-wait", "1h", "--ingest-purge=3h"}, connected...)...)
	if err != nil || settings.IngestBatches != 9 {
		t.Fatalf("%+v, %v", settings.Ingest, err)
	}
	want := []string{
		"curate-after in the settings file is not a setting any more; it is 15s; remove it",
		"SLUICE_EVENTS_AGE is not a setting any more; it is 24h; remove it",
		"--ingest-purge is not a setting any more; it is 30s; remove it",
		"--query-wait is not a setting any more; it is 10s; remove it",
	}
	if !slices.Equal(source.Warnings, want) {
		t.Errorf("warned:\n%s", strings.Join(source.Warnings, "\n"))
	}
}

// TestWhatFollowsTheFlagsIsLeftAlone: it is text, such as a question.
func TestWhatFollowsTheFlagsIsLeftAlone(t *testing.T) {
	args := []string{"ask", "--", "--query-wait", "--events-age=1h"}
	s := &Source{}
	if s.retire(args); !slices.Equal(s.Args, args) || len(s.Warnings) > 0 {
		t.Errorf("%q, %q", s.Args, s.Warnings)
	}
}

// TestNoSettingIsGoneAndThere: what is gone is none, and what has another name now has one that there is.
func TestNoSettingIsGoneAndThere(t *testing.T) {
	known := Known()
	for _, g := range gone {
		if slices.Contains(known, g.name) || (g.now == "") == (g.value == "") || g.now != "" && !slices.Contains(known, g.now) {
			t.Errorf("%+v", g)
		}
	}
}

func read(t *testing.T, file string, args ...string) (settings IngestWorker, source *Source, err error) {
	t.Helper()
	t.Setenv("SLUICE_CONFIG", settingsFile(t, file))
	if source, err = Read(args); err != nil {
		return settings, nil, err
	}
	parser, err := kong.New(&settings, source)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(source.Args)
	return settings, source, err
}
