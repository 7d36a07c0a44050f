// Package matrix describes what `sluice eval --matrix` measures: a file that names datasets, model
// packs, plans and settings (file.go), the rows that these make (rows.go), and the folder in which
// the figures of questions are kept, so that a second run asks only what is missing (kept.go). It
// calls no server. docs/evaluation.md describes the file.
package matrix

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/stage"
	"github.com/sluice-rag/sluice/schema"
)

// File is a parsed matrix file.
type File struct {
	Path        string
	Name        string
	Description string
	Datasets    []Dataset
	Packs       []string // names of model packs; none: the pack in use
	Metrics     []string // of the tables
	Baseline    string   // name of a row; empty: the first
	Answers     bool
	Judge       bool   // a language model judges the answers
	JudgeLabels string // file of labels by people; empty: none
	Risk        *float64
	Prices      evaluate.Prices
	Cutoffs     []int
	Parallel    int

	plans    []planEntry
	settings []setting
}

// Dataset is a BEIR folder and the choice of its questions.
type Dataset struct {
	Folder   string
	Name     string // as shown in tables
	Split    string
	Limit    int
	Seed     uint64
	Language string
}

// planEntry is a plan of the file: the name of a server's plan, a plan's file, or the plan itself.
type planEntry struct {
	as   string // its name in tables; empty: the plan's own
	name string // of a plan of the server
	text string // YAML, from a file or the matrix itself
}

// setting is a named set of changes to plans.
type setting struct {
	field  string // where it is in the file: settings[2]
	name   string
	plans  []string // names of the plans that it applies to; none: all
	change plan.Change
	vary   []axis
	model  map[string]string // settings of the language model
}

// axis is a parameter and the values that it takes.
type axis struct {
	field  string
	values []*yaml.Node
}

// Limits of a file.
const (
	maxFile  = 1 << 20
	maxNodes = 100_000
	maxRows  = 64 // rows of a report
)

// Default metrics of the tables.
var (
	usual        = []string{"ndcg@10", "hit@1", "ar@4", "evidence_recall", "tokens", "ms"}
	usualAnswers = []string{"ndcg@10", "f1", "em", "cost", "cost_efficiency", "answer_ms"}
)

// Read reads a matrix file. Errors name the field that is wrong.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the matrix: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the matrix: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("matrix %s: has more than %d bytes", path, maxFile)
	}
	out, err := parse(path, text)
	if err != nil {
		return nil, fmt.Errorf("matrix %s: %w", path, err)
	}
	return out, nil
}

func parse(path string, text []byte) (*File, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, schema.Invalid("matrix", "is not YAML: %v", err)
	}
	if len(root.Content) == 0 {
		return nil, schema.Invalid("matrix", "is empty")
	}
	left := maxNodes
	document, err := withoutAliases(root.Content[0], &left)
	if err != nil {
		return nil, err
	}
	if document.Kind != yaml.MappingNode {
		return nil, schema.Invalid("matrix", "needs fields with values, such as datasets: and plans:")
	}
	top, err := stage.ReadParameters("", document)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, Name: top.Text("name", false), Description: top.Text("description", false), Parallel: 2,
		Prices: evaluate.Prices{Input: 10, Output: 30}}
	if f.Name == "" {
		f.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	items(top, "datasets", true, f.readDataset)
	f.Packs = texts(top, "packs")
	items(top, "plans", true, f.readPlan)
	items(top, "settings", false, f.readSetting)
	f.Metrics = texts(top, "metrics")
	f.Baseline = top.Text("baseline", false)
	decode(top, "answers", &f.Answers, "true or false")
	decode(top, "judge", &f.Judge, "true or false")
	f.JudgeLabels = top.Text("judge_labels", false)
	decode(top, "risk", &f.Risk, "a number from 0 to 1")
	decode(top, "cutoffs", &f.Cutoffs, "a list of whole numbers")
	decode(top, "parallel", &f.Parallel, "a whole number of at least 1")
	readPrices(top, &f.Prices)
	if err := top.Close(); err != nil {
		return nil, err
	}
	return f, f.check()
}

func (f *File) check() error {
	if f.Risk != nil && !(*f.Risk >= 0 && *f.Risk <= 1) {
		return schema.Invalid("risk", "%g is not a probability from 0 to 1", *f.Risk)
	}
	if f.Judge && !f.Answers {
		return schema.Invalid("judge", "judges answers, and no answers are asked for: add answers: true")
	}
	if f.JudgeLabels != "" && !f.Judge {
		return schema.Invalid("judge_labels", "are only for comparison with a judge: add judge: true")
	}
	for i, p := range f.Packs {
		if slices.Contains(f.Packs[:i], p) {
			return schema.Invalid(fmt.Sprintf("packs[%d]", i), "%q is named twice", p)
		}
	}
	for i, d := range f.Datasets {
		if slices.ContainsFunc(f.Datasets[:i], func(o Dataset) bool { return o.Name == d.Name }) {
			return schema.Invalid(fmt.Sprintf("datasets[%d].name", i), "%q is already the name of another dataset", d.Name)
		}
	}
	if len(f.Metrics) == 0 {
		f.Metrics = usual
		if f.Answers {
			f.Metrics = usualAnswers
		}
	}
	for i, k := range f.Cutoffs {
		if k < 1 || k > 1000 {
			return schema.Invalid(fmt.Sprintf("cutoffs[%d]", i), "must be from 1 to 1000")
		}
	}
	if !(f.Prices.Input >= 0 && f.Prices.Output >= 0) {
		return schema.Invalid("prices", "must be 0 or more")
	}
	if f.Parallel < 1 {
		return schema.Invalid("parallel", "must be at least 1")
	}
	return evaluate.CheckMetrics(f.Metrics, f.Cutoffs, f.Answers, f.Judge)
}

// withoutAliases replaces each alias by a copy of the value that it refers to.
func withoutAliases(n *yaml.Node, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, schema.Invalid("matrix", "its aliases expand to more than %d values", maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		return withoutAliases(n.Alias, left)
	}
	out := *n
	out.Anchor, out.Content = "", nil
	for _, inner := range n.Content {
		next, err := withoutAliases(inner, left)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, next)
	}
	return &out, nil
}

func (f *File) readDataset(field string, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode { // "- folder"
		node = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "folder"}, node}}
	}
	p, err := stage.ReadParameters(field, node)
	if err != nil {
		return err
	}
	d := Dataset{Folder: p.Text("folder", true), Name: p.Text("name", false), Split: p.Text("split", false), Limit: p.Int("limit", 0, 0, 1<<31-1),
		Seed: uint64(p.Int("seed", 1, 0, 1<<62)), Language: p.Text("language", false)}
	for text, otherwise := range map[*string]string{&d.Name: filepath.Base(d.Folder), &d.Split: "test", &d.Language: "en"} {
		if *text == "" {
			*text = otherwise
		}
	}
	f.Datasets = append(f.Datasets, d)
	return p.Close()
}

func (f *File) readPlan(field string, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && strings.TrimSpace(node.Value) != "" { // "- naive"
		f.plans = append(f.plans, planEntry{name: node.Value, as: node.Value})
		return nil
	}
	p, err := stage.ReadParameters(field, node)
	if err != nil {
		return err
	}
	// The plan itself, in the form of a plan's file.
	if stages := p.Take("stages"); stages != nil {
		text, err := yaml.Marshal(node)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		return f.addPlan(field, "", string(text))
	}
	as, name, file := p.Text("as", false), p.Text("plan", false), p.Text("file", false)
	if err := p.Close(); err != nil {
		return err
	}
	switch {
	case (name == "") == (file == ""):
		return schema.Invalid(field, "needs the name of a plan, a plan: with as:, a file:, or a plan's own name: and stages:")
	case name != "":
		if as == "" {
			as = name
		}
		f.plans = append(f.plans, planEntry{name: name, as: as})
		return nil
	}
	text, err := os.ReadFile(f.resolve(file))
	if err != nil {
		return fmt.Errorf("%s.file: %w", field, err)
	}
	return f.addPlan(field+".file", as, string(text))
}

// addPlan adds a plan that the server need not know.
func (f *File) addPlan(field, as, text string) error {
	p, err := plan.Parse([]byte(text))
	if err != nil {
		return inside(field, err)
	}
	if as == "" {
		as = p.Name
	}
	f.plans = append(f.plans, planEntry{as: as, text: text})
	return nil
}

// resolve resolves a path relative to the file.
func (f *File) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), path)
}

// Labels reads the file of labels by people. Without one, it returns no labels.
func (f *File) Labels() (evaluate.HumanLabels, error) {
	if f.JudgeLabels == "" {
		return evaluate.HumanLabels{}, nil
	}
	labels, err := evaluate.ReadHumanLabels(f.resolve(f.JudgeLabels))
	if err != nil {
		return labels, fmt.Errorf("judge_labels: %w", err)
	}
	return labels, nil
}

// Dir returns the folder of a dataset: in root if that is given, else relative to the file.
func (f *File) Dir(d Dataset, root string) string {
	if root != "" && !filepath.IsAbs(d.Folder) {
		return filepath.Join(root, d.Folder)
	}
	return f.resolve(d.Folder)
}

// modelSettings are the settings of the language model that a setting may change: the flags
// --llm-... of `sluice up` without the prefix. API keys are not among them.
var modelSettings = []string{"provider", "fallback", "timeout", "max_tokens", "reasoning_tokens", "base_url", "model", "format", "price",
	"anthropic_base_url", "anthropic_model", "anthropic_price"}

func (f *File) readSetting(field string, node *yaml.Node) error {
	p, err := stage.ReadParameters(field, node)
	if err != nil {
		return err
	}
	s := setting{field: field, name: p.Text("name", false), plans: texts(p, "plans"), change: plan.Change{Without: texts(p, "without")}}
	pairs(p, "set", func(name string, value *yaml.Node) {
		s.change.Set = append(s.change.Set, plan.Setting{Field: name, Value: value})
	})
	pairs(p, "vary", func(name string, value *yaml.Node) {
		if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			p.Fail("vary."+name, "needs a list of values")
			return
		}
		s.vary = append(s.vary, axis{name, value.Content})
	})
	pairs(p, "language_model", func(name string, value *yaml.Node) {
		switch {
		case !slices.Contains(modelSettings, name):
			p.Fail("language_model."+name, "there is no such setting; there are: %s (keys come from the environment)", strings.Join(modelSettings, ", "))
		case value.Kind != yaml.ScalarNode:
			p.Fail("language_model."+name, "needs one value")
		default:
			if s.model == nil {
				s.model = map[string]string{}
			}
			s.model[name] = value.Value
		}
	})
	items(p, "append", false, func(_ string, stage *yaml.Node) error {
		s.change.Append = append(s.change.Append, stage)
		return nil
	})
	f.settings = append(f.settings, s)
	return p.Close()
}

func readPrices(top *stage.Parameters, prices *evaluate.Prices) {
	node := top.Take("prices")
	if node == nil {
		return
	}
	p, err := stage.ReadParameters("prices", node)
	if err == nil {
		decode(p, "input", &prices.Input, "dollars per million tokens")
		decode(p, "output", &prices.Output, "dollars per million tokens")
		err = p.Close()
	}
	if err != nil && top.Err == nil {
		top.Err = err
	}
}

// items calls each with every item of a list.
func items(p *stage.Parameters, name string, required bool, each func(field string, item *yaml.Node) error) {
	node := p.Take(name)
	if node == nil {
		if required {
			p.Fail(name, "is missing: a list of at least one")
		}
		return
	}
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		p.Fail(name, "needs a list of at least one")
		return
	}
	for i, item := range node.Content {
		if err := each(fmt.Sprintf("%s[%d]", name, i), item); err != nil && p.Err == nil {
			p.Err = err
		}
	}
}

// pairs calls each for every field of a mapping.
func pairs(p *stage.Parameters, name string, each func(name string, value *yaml.Node)) {
	node := p.Take(name)
	if node == nil {
		return
	}
	if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		p.Fail(name, "needs fields with values")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		if seen[key] {
			p.Fail(name+"."+key, "is given twice")
		}
		seen[key] = true
		each(key, node.Content[i+1])
	}
}

// texts reads a list of strings.
func texts(p *stage.Parameters, name string) []string {
	var out []string
	items(p, name, false, func(field string, item *yaml.Node) error {
		if item.Kind != yaml.ScalarNode || strings.TrimSpace(item.Value) == "" {
			p.Fail(field, "needs a text")
		}
		out = append(out, item.Value)
		return nil
	})
	return out
}

// decode reads a value if the field exists.
func decode[T any](p *stage.Parameters, name string, into *T, what string) {
	if node := p.Take(name); node != nil {
		if err := node.Decode(into); err != nil {
			p.Fail(name, "needs %s", what)
		}
	}
}

// lines matches the line number in errors of plan.Parse. It is removed, because for a plan inside a
// matrix it does not refer to the matrix file.
var lines = regexp.MustCompile(`^line [0-9]+: `)

// inside adds the path of the enclosing field to an error.
func inside(field string, err error) error {
	var wrong *schema.FieldError
	if errors.As(err, &wrong) {
		return schema.Invalid(field+"."+wrong.Field, "%s", lines.ReplaceAllString(wrong.Problem, ""))
	}
	return fmt.Errorf("%s: %w", field, err)
}
