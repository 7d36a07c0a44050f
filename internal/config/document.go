package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// group is a group of settings.
type group struct {
	title    string
	settings any
}

// groups has all settings, for sluice.yaml and, in this order, for the configuration page. A
// program that reads one setting of a group reads all of them.
var groups = []group{
	{"Database", &Database{}},
	{"Replica of the database", &DatabaseReplica{}},
	{"Owner of the database", &DatabaseOwner{}},
	{"Owner of the vectors' partitions", &DatabaseVectors{}},
	{"Administrator of the database", &DatabaseAdmin{}},
	{"Postgres' own tools", &PostgresTools{}},
	{"Bytes of documents", &Blobs{}},
	{"NATS", &NATS{}},
	{"Temporal", &Temporal{}},
	{"A program's signature", &Signing{}},
	{"Signatures of others", &Trust{}},
	{"Streams", &Streams{}},
	{"API", &HTTP{}},
	{"Signing in at a provider", &OIDC{}},
	{"Receipts", &Receipts{}},
	{"Ingestion", &Ingest{}},
	{"Retention", &Retention{}},
	{"Parsing", &Parse{}},
	{"Models", &Model{}},
	{"Second encoder", &SecondEncoder{}},
	{"Model hub", &Hub{}},
	{"Plans", &Plans{}},
	{"Questions", &Answering{}},
	{"Webhooks", &Webhooks{}},
	{"Public address", &Public{}},
	{"Sources", &Synchronisation{}},
	{"Keys of sources", &SourceKeys{}},
	{"Language models", &LLM{}},
	{"Disk", &Disk{}},
	{"Health", &Health{}},
	{"Log", &Log{}},
	{"Data directory", &DataDirectory{}},
	{"The Postgres of `sluice up`", &LocalPostgres{}},
	{"Client", &Client{}},
}

// flags returns the settings of a group as flags.
func (g group) flags() ([]*kong.Flag, error) {
	parser, err := kong.New(reflect.New(reflect.TypeOf(g.settings).Elem()).Interface(), kong.Name("sluice"), kong.NoDefaultHelp())
	if err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", g.title, err)
	}
	return parser.Model.Flags, nil
}

// section is a section of the configuration page.
type section struct {
	title   string
	readers string
	flags   []*kong.Flag
}

// sections returns the sections of the page: first the groups, then the groups that settings name
// in their tag "group".
func sections(sluice any) ([]*section, error) {
	readers, err := readers(sluice)
	if err != nil {
		return nil, err
	}
	var first, last []*section
	seen := map[string]bool{}
	add := func(list *[]*section, title string, flag *kong.Flag) error {
		i := slices.IndexFunc(*list, func(s *section) bool { return s.title == title })
		if i < 0 {
			i = len(*list)
			*list = append(*list, &section{title: title, readers: readers[flag.Name]})
		}
		s := (*list)[i]
		if s.readers == "" || s.readers != readers[flag.Name] {
			return fmt.Errorf("%s: read by %q, and --%s by %q", title, s.readers, flag.Name, readers[flag.Name])
		}
		s.flags = append(s.flags, flag)
		return nil
	}
	for _, group := range groups {
		flags, err := group.flags()
		if err != nil {
			return nil, err
		}
		for _, flag := range flags {
			if seen[flag.Name] {
				continue
			}
			seen[flag.Name] = true
			if flag.Group != nil {
				err = add(&last, flag.Group.Title, flag)
			} else {
				err = add(&first, group.title, flag)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return append(first, last...), nil
}

// readers returns, for each setting, the programs that read it. sluice has the commands of the
// program sluice.
func readers(sluice any) (map[string]string, error) {
	read := map[string][]string{}
	for _, p := range []struct {
		name     string
		settings any
	}{{"ingest-worker", &IngestWorker{}}, {"query-worker", &QueryWorker{}}, {"llm-gateway", &LLMGateway{}}, {"source-worker", &SourceWorker{}}, {"gpu-segmenter", &GPUSegmenter{}}, {"", sluice}} {
		parser, err := kong.New(p.settings, kong.NoDefaultHelp())
		if err != nil {
			return nil, fmt.Errorf("read the settings of %T: %w", p.settings, err)
		}
		for _, flag := range parser.Model.Flags {
			read[flag.Name] = append(read[flag.Name], p.name)
		}
		for _, command := range parser.Model.Children {
			walk(command, func(flag *kong.Flag) {
				if name := "`sluice " + command.Name + "`"; len(flag.Envs) > 0 && !slices.Contains(read[flag.Name], name) {
					read[flag.Name] = append(read[flag.Name], name)
				}
			})
		}
	}
	joined := map[string]string{}
	for name, by := range read {
		joined[name] = strings.Join(by, ", ")
	}
	return joined, nil
}

// walk visits the flags of a command and its subcommands.
func walk(n *kong.Node, visit func(*kong.Flag)) {
	for _, flag := range n.Flags {
		visit(flag)
	}
	for _, child := range n.Children {
		walk(child, visit)
	}
}

// Document writes the configuration page in Markdown. sluice has the commands of the program
// sluice.
func Document(w io.Writer, sluice any) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\nThis page is generated from the code (`go generate ./cmd/sluice`).\n\n" +
		"A setting comes from its flag, else from its variable, else from `sluice.yaml` in the working\n" +
		"folder (or the file that `SLUICE_CONFIG` names), else its default. In `sluice.yaml` a setting has\n" +
		"its flag's name: `nats-url: nats://queue:4222`. `sluice up` runs every program in one process and\n" +
		"takes the settings of all of them. A setting that only earlier versions had gives a warning at the start.\n\n" +
		"`SLUICE_HOME` moves everything that Sluice keeps outside of a named data directory: what set-up built, and\n" +
		"the default data directory. OpenTelemetry is configured by its standard `OTEL_*` variables; with none, nothing is exported.\n")
	sections, err := sections(sluice)
	if err != nil {
		return err
	}
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\nRead by: %s.\n\n| flag | variable | default | meaning | change it when |\n|---|---|---|---|---|\n", section.title, section.readers)
		for _, flag := range section.flags {
			value := "none"
			if flag.HasDefault {
				value = "`" + flag.Default + "`"
			}
			when := flag.Tag.Get("when")
			if when == "" {
				return fmt.Errorf("--%s does not say when to change it", flag.Name)
			}
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s |\n", flag.Name, strings.Join(flag.Envs, "`, `"), value, flag.Help, when)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}
