package house

// This file checks how containers run: with limits on logs and memory, and ours without privileges
// and with a read-only file system.

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type container struct {
	Image    string
	Build    map[string]any
	Logging  struct{ Options map[string]string }
	MemLimit string   `yaml:"mem_limit"`
	ReadOnly bool     `yaml:"read_only"`
	CapDrop  []string `yaml:"cap_drop"`
	Security []string `yaml:"security_opt"`
	Tmpfs    []string
	Volumes  []string
	Ports    []string
	Profiles []string
}

func containers(t *testing.T) map[string]container {
	t.Helper()
	text, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]container }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

func TestContainersAreBounded(t *testing.T) {
	for name, c := range containers(t) {
		if c.Logging.Options["max-size"] == "" || c.Logging.Options["max-file"] == "" {
			t.Errorf("%s: its log grows without bound", name)
		}
		if c.MemLimit == "" {
			t.Errorf("%s: it has no mem_limit", name)
		}
		if c.Build == nil {
			continue
		}
		tmp := c.Tmpfs
		if name == "source-worker" { // it fetches whole repositories, to disk
			tmp = c.Volumes
		}
		if !c.ReadOnly || !slices.Contains(c.CapDrop, "ALL") || !slices.Contains(c.Security, "no-new-privileges:true") || !slices.Contains(tmp, "/tmp") {
			t.Errorf("%s: read_only, cap_drop: [ALL], no-new-privileges and tmpfs: [/tmp] are to be set: %+v", name, c)
		}
	}
}

// TestTemporalsPagesAreForThisHost: everybody who can reach Temporal's web UI can read and end
// workflows.
func TestTemporalsPagesAreForThisHost(t *testing.T) {
	ui := containers(t)["temporal-ui"]
	if len(ui.Profiles) == 0 {
		t.Error("temporal-ui starts unasked")
	}
	for _, port := range ui.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("temporal-ui listens on %s", port)
		}
	}
}

// TestTheClassicBuilderCanBuild: the classic builder has no --chmod, and builds every stage above
// the requested one, so the CUDA stage, which has several GB, must be below the stages that do not
// need it.
func TestTheClassicBuilderCanBuild(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if option := regexp.MustCompile(`(?m)^(COPY|ADD|RUN) --(chmod|mount|link|network|security)`).Find(text); option != nil {
		t.Errorf("Dockerfile: %s", option)
	}
	var stages []string
	for _, m := range regexp.MustCompile(`(?m)^FROM .* AS (\S+)$`).FindAllSubmatch(text, -1) {
		stages = append(stages, string(m[1]))
	}
	if n := len(stages); n < 2 || !slices.Equal(stages[n-2:], []string{"onnxruntime-cuda", "gpu-segmenter-cuda"}) {
		t.Errorf("the stages are %q", stages)
	}
}
