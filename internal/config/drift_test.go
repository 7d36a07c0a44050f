package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// settings returns all settings by variable.
func settings(t *testing.T) map[string]*kong.Flag {
	t.Helper()
	all := map[string]*kong.Flag{}
	for _, g := range groups {
		flags, err := g.flags()
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range flags {
			for _, env := range flag.Envs {
				all[env] = flag
			}
		}
	}
	return all
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var composed = regexp.MustCompile(`(?m)^\s+(SLUICE_\w+): (?:\$\{(SLUICE_\w+):-(.*)\}$)?`)

// TestComposeSetsWhatThereIs: docker-compose.yml sets existing settings, with their defaults except
// where containers need other values.
func TestComposeSetsWhatThereIs(t *testing.T) {
	otherwise := map[string]string{"SLUICE_DATABASE_CONNECTIONS": "16"}
	notOurs := []string{"SLUICE_DATABASE_PASSWORD", "SLUICE_TEMPORAL_PASSWORD"} // of deploy/postgres-init.sh
	all, found := settings(t), composed.FindAllStringSubmatch(readText(t, "../../docker-compose.yml"), -1)
	if len(found) == 0 {
		t.Error("docker-compose.yml sets nothing")
	}
	for _, m := range found {
		name, passed, value := m[1], m[2], m[3]
		if slices.Contains(notOurs, name) {
			continue
		}
		flag, known := all[name]
		if !known {
			t.Errorf("docker-compose.yml sets %s, which is no setting", name)
			continue
		}
		if passed == "" {
			continue // not for the operator to change
		}
		want, special := otherwise[name]
		if !special {
			want = flag.Default
		}
		if passed != name || value != want {
			t.Errorf("docker-compose.yml sets %s from %s, else to %q, want %q", name, passed, value, want)
		}
	}
}

// TestTablesOfLimitsSayTheDefaults: rows "| what | limit | `SLUICE_...`, ... |" have the default of
// each variable, in this order.
func TestTablesOfLimitsSayTheDefaults(t *testing.T) {
	all, variables := settings(t), regexp.MustCompile("`(SLUICE_\\w+)`")
	for _, page := range []string{"operating.md", "fairness.md"} {
		rows := 0
		for _, line := range strings.Split(readText(t, "../../docs/"+page), "\n") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if len(cells) != 3 || !strings.HasPrefix(line, "| ") || !strings.HasPrefix(cells[2], " `SLUICE_") {
				continue
			}
			rows++
			said := strings.Split(strings.TrimSpace(cells[1]), ", ")
			for i, m := range variables.FindAllStringSubmatch(cells[2], -1) {
				switch flag := all[m[1]]; {
				case flag == nil:
					t.Errorf("%s: %s is no setting", page, m[1])
				case i >= len(said) || !strings.HasPrefix(said[i]+" ", shown(flag)+" "):
					t.Errorf("%s: %q, and %s is %s", page, strings.TrimSpace(line), m[1], shown(flag))
				}
			}
		}
		if rows == 0 {
			t.Errorf("%s has no limits", page)
		}
	}
}

// shown returns a setting's default as the documentation writes it.
func shown(flag *kong.Flag) string {
	if d, err := time.ParseDuration(flag.Default); err == nil && flag.Default != "0" {
		if d%time.Minute == 0 && d > time.Minute {
			return fmt.Sprintf("%d minutes", d/time.Minute)
		}
		return fmt.Sprintf("%g s", d.Seconds())
	}
	n, err := strconv.Atoi(flag.Default)
	switch megabytes := strings.HasSuffix(flag.Envs[0], "_MB"); {
	case err != nil:
		return flag.Default
	case n == 0: // the help says what it means
		_, meaning, _ := strings.Cut(flag.Help, "; 0 is ")
		first, _, _ := strings.Cut(strings.TrimSuffix(meaning, "."), ",")
		return first
	case megabytes && n%1024 == 0:
		return fmt.Sprintf("%d GB", n/1024)
	case megabytes:
		return fmt.Sprintf("%d MB", n)
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return flag.Default
}

// TestPagesNameNoSettingThatIsGone: neither the documentation nor the example deployment names a
// former setting.
func TestPagesNameNoSettingThatIsGone(t *testing.T) {
	pages, err := os.ReadDir("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"../../README.md", "../../docker-compose.yml"}
	for _, page := range pages {
		if strings.HasSuffix(page.Name(), ".md") {
			files = append(files, "../../docs/"+page.Name())
		}
	}
	for _, file := range files {
		text := readText(t, file)
		for _, g := range gone {
			if strings.Contains(text, variable(g.name)) || strings.Contains(text, "--"+g.name) {
				t.Errorf("%s names %s, which is gone", file, g.name)
			}
		}
	}
}
