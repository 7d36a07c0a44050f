package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// group is a part of the settings.
type group struct {
	title    string
	programs string // that read it
	settings any
}

// groups are all settings: what sluice.yaml may have, and the configuration page, in its order.
var groups = []group{
	{"Connections", "all but as noted", &Connections{}},
	{"Owner of the database", "`sluice migrate`", &DatabaseOwner{}},
	{"Owner of the vectors' partitions", "ingest-worker, `sluice migrate`", &DatabaseVectors{}},
	{"Signatures", "serve (the first), query-worker (both), llm-gateway (the second)", &Signatures{}},
	{"Streams", "ingest-worker, query-worker", &Streams{}},
	{"API", "serve", &HTTP{}},
	{"Ingestion", "ingest-worker", &Ingest{}},
	{"Retention", "ingest-worker, which purges", &Retention{}},
	{"Parsing", "ingest-worker", &Parse{}},
	{"Models", "gpu-segmenter, `sluice models`", &Model{}},
	{"Model hub", "`sluice models add`", &Hub{}},
	{"Questions", "query-worker", &Answering{}},
	{"Webhooks", "query-worker", &Webhooks{}},
	{"Language models", "llm-gateway", &LLM{}},
	{"Disk", "`sluice up`", &Disk{}},
	{"Health", "every worker", &Health{}},
	{"Log", "every program; `sluice up` logs from `warn` on unless told otherwise", &Log{}},
	{"Client", "`sluice ingest`, `ask` and the others that call a server; `--data` also by `up`", &Client{}},
}

// flags are the settings of a group, as flags.
func (g group) flags() ([]*kong.Flag, error) {
	parser, err := kong.New(reflect.New(reflect.TypeOf(g.settings).Elem()).Interface(), kong.Name("sluice"), kong.NoDefaultHelp())
	if err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", g.title, err)
	}
	return parser.Model.Flags, nil
}

// Document writes the configuration page, in Markdown.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\nThis page is generated from the code (`go generate ./internal/config`).\n\n" +
		"A setting comes from its flag, else from its variable, else from `sluice.yaml` in the working\n" +
		"folder (or the file that `SLUICE_CONFIG` names), else its default. In `sluice.yaml` a setting has\n" +
		"its flag's name: `nats-url: nats://queue:4222`. `sluice up` runs every program in one process and\n" +
		"takes the settings of all of them.\n\n" +
		"`SLUICE_HOME` moves everything that Sluice keeps outside of a named data directory: what set-up built, and\n" +
		"the default data directory. OpenTelemetry is configured by its standard `OTEL_*` variables; with none, nothing is exported.\n")
	for _, group := range groups {
		fmt.Fprintf(&b, "\n## %s\n\nRead by: %s.\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n", group.title, group.programs)
		flags, err := group.flags()
		if err != nil {
			return err
		}
		for _, flag := range flags {
			value := "none"
			if flag.HasDefault {
				value = "`" + flag.Default + "`"
			}
			help := strings.ReplaceAll(flag.Help, "${enum}", strings.Join(strings.Split(flag.Enum, ","), ", "))
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", flag.Name, strings.Join(flag.Envs, "`, `"), value, help)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
