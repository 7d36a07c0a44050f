package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/internal/config"
)

// TestEverySettingMayStandInTheFile: whatever a command reads from a variable, sluice.yaml
// may have, and a flag that has no variable is none of its settings.
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
