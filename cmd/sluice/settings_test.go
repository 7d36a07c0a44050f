package main

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/internal/config"
)

var update = flag.Bool("update", false, "write the configuration page")

func TestConfigurationPage(t *testing.T) {
	const page = "../../docs/configuration.md"
	var want bytes.Buffer
	if err := config.Document(&want, &commands{}); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/configuration.md is not what the code says; run: go generate ./cmd/sluice")
	}
}

// TestEverySettingMayStandInTheFile: sluice.yaml may have every setting that a command reads from a
// variable. A flag without a variable is not a setting.
func TestEverySettingMayStandInTheFile(t *testing.T) {
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	known := config.Known()
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, flag := range n.Flags {
			if len(flag.Envs) > 0 && !slices.Contains(known, flag.Name) {
				t.Errorf("%s reads --%s from %v, which sluice.yaml may not have", n.FullPath(), flag.Name, flag.Envs)
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
}

// TestUpLogsLess: sluice up runs in a terminal, where it prints its own messages.
func TestUpLogsLess(t *testing.T) {
	for command, want := range map[string]string{"up": "warn", "serve": "info"} {
		var c commands
		parser, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{command}); err != nil {
			t.Fatal(err)
		}
		if got := map[string]string{"up": c.Up.LogLevel, "serve": c.Serve.LogLevel}[command]; got != want {
			t.Errorf("%s logs from %s on, want %s", command, got, want)
		}
	}
}
