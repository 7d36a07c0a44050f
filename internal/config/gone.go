package config

import (
	"fmt"
	"os"
	"strings"
)

// goneSetting is a former setting. Its use is warned of, because ignoring it silently would
// surprise the operator.
type goneSetting struct {
	name  string // name of its flag, and in sluice.yaml; the variable's name follows from it
	value string // the constant that replaced it; empty if it was renamed
	now   string // its new name, which gets the value of the old one; empty if it was replaced by a constant
}

var gone = []goneSetting{
	{name: "body-idle", value: "15s"},
	{name: "curate-after", value: "15s"},
	{name: "curate-keep", value: "10m"},
	{name: "events-age", value: "24h"},
	{name: "ingest-batch-bytes", value: "1048576"},
	{name: "ingest-batch-wait", value: "200ms"},
	{name: "ingest-batches-beside-searches", now: "ingest-batches-during-searches"},
	{name: "ingest-purge", value: "30s"},
	{name: "llm-anthropic-version", value: "2023-06-01"},
	{name: "llm-cache-entries", value: "10000"},
	{name: "llm-extractive-price", value: "0.10/0.40"},
	{name: "query-queue", value: "64"},
	{name: "query-wait", value: "10s"},
	{name: "slow-question", value: "10s"},
	{name: "tenant-streams", value: "250"},
	{name: "vector-index-above", value: "20000"},
}

// variable returns the name of a setting's environment variable.
func variable(name string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// warning returns the warning about a setting that is set as given: by its flag, its variable or
// its line in the file.
func (g goneSetting) warning(given, now string) string {
	if g.now != "" {
		return fmt.Sprintf("%s is now called %s; rename it", given, now)
	}
	return fmt.Sprintf("%s is no longer a setting; it is always %s; remove it", given, g.value)
}

// retire removes former settings from the file's values and the arguments, or renames them.
func (s *Resolver) retire(args []string) {
	for _, g := range gone {
		var warnings []string
		if value, set := s.values[g.name]; set {
			delete(s.values, g.name)
			if _, both := s.values[g.now]; g.now != "" && !both {
				s.values[g.now] = value
			}
			warnings = append(warnings, g.warning(g.name+" in the settings file", g.now))
		}
		if value, set := os.LookupEnv(variable(g.name)); set {
			if g.now != "" {
				s.values[g.now] = value // the variable of the new name takes precedence
			}
			warnings = append(warnings, g.warning(variable(g.name), variable(g.now)))
		}
		var found bool
		if args, found = g.takeFlag(args); found {
			warnings = append(warnings, g.warning("--"+g.name, "--"+g.now))
		}
		if len(warnings) > 0 {
			s.Warnings = append(s.Warnings, warnings[len(warnings)-1])
		}
	}
	s.Args = args
}

// takeFlag returns args without the setting's flag and its value, or with the flag renamed.
func (g goneSetting) takeFlag(args []string) (left []string, found bool) {
	for i := 0; i < len(args); i++ {
		name, value, with := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			return append(left, args[i:]...), found
		case name != "--"+g.name:
			left = append(left, args[i])
			continue
		case g.now != "" && with:
			left = append(left, "--"+g.now+"="+value)
		case g.now != "":
			left = append(left, "--"+g.now)
		case !with:
			i++ // its value
		}
		found = true
	}
	return left, found
}
