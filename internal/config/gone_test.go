package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var connected = []string{"--database-url=postgres://x", "--nats-url=nats://x", "--temporal-address=x:1"}

// TestSettingsThatAreGoneAreWarnedOf: former settings cause one warning each, wherever they are
// set, and the program starts.
func TestSettingsThatAreGoneAreWarnedOf(t *testing.T) {
	t.Setenv("SLUICE_EVENTS_AGE", "1h")
	t.Setenv("SLUICE_INGEST_PURGE", "1h")
	settings, source, err := read(t, "curate_after: 1h\ningest-purge: 2h\ningest-batches: 9\n",
		append([]string{"--query-wait", "1h", "--ingest-purge=3h"}, connected...)...)
	if err != nil || settings.IngestBatches != 9 {
		t.Fatalf("%+v, %v", settings.Ingest, err)
	}
	want := []string{
		"curate-after in the settings file is no longer a setting; it is always 15s; remove it",
		"SLUICE_EVENTS_AGE is no longer a setting; it is always 24h; remove it",
		"--ingest-purge is no longer a setting; it is always 30s; remove it",
		"--query-wait is no longer a setting; it is always 10s; remove it",
	}
	if !slices.Equal(source.Warnings, want) {
		t.Errorf("warned:\n%s", strings.Join(source.Warnings, "\n"))
	}
}

// TestWhatFollowsTheFlagsIsLeftAlone: arguments after "--" are text, such as a question.
func TestWhatFollowsTheFlagsIsLeftAlone(t *testing.T) {
	args := []string{"ask", "--", "--query-wait", "--events-age=1h"}
	s := &Resolver{}
	if s.retire(args); !slices.Equal(s.Args, args) || len(s.Warnings) > 0 {
		t.Errorf("%q, %q", s.Args, s.Warnings)
	}
}

// TestNoSettingIsGoneAndThere: a former setting does not exist, and the new name of a renamed one
// exists.
func TestNoSettingIsGoneAndThere(t *testing.T) {
	known := Known()
	for _, g := range gone {
		if slices.Contains(known, g.name) || (g.now == "") == (g.value == "") || g.now != "" && !slices.Contains(known, g.now) {
			t.Errorf("%+v", g)
		}
	}
}

func read(t *testing.T, file string, args ...string) (settings IngestWorker, source *Resolver, err error) {
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

// TestAnOldNameIsTaken: a former name works in each place, with the precedence of the new name
// there.
func TestAnOldNameIsTaken(t *testing.T) {
	const old, variable = "ingest-batches-beside-searches", "SLUICE_INGEST_BATCHES_BESIDE_SEARCHES"
	taken := func(want int, warning, file string, args ...string) {
		t.Helper()
		settings, source, err := read(t, file, append(args, connected...)...)
		if err != nil || settings.IngestBeside != want || !slices.Equal(source.Warnings, []string{warning}) {
			t.Errorf("%d, %q, %v", settings.IngestBeside, source.Warnings, err)
		}
	}
	taken(2, old+" in the settings file is now called ingest-batches-during-searches; rename it", old+": 2\n")
	t.Setenv(variable, "3")
	inEnvironment := variable + " is now called SLUICE_INGEST_BATCHES_DURING_SEARCHES; rename it"
	taken(3, inEnvironment, "ingest-batches-during-searches: 2\n")
	for _, args := range [][]string{{"--" + old + "=4"}, {"--" + old, "4"}} {
		taken(4, "--"+old+" is now called --ingest-batches-during-searches; rename it", "", args...)
	}
	t.Setenv("SLUICE_INGEST_BATCHES_DURING_SEARCHES", "5")
	taken(5, inEnvironment, "")
}
