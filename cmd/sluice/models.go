package main

// This file is `sluice models`: listing, choosing, adding and removing model packs. modelscheck.go
// checks them.

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/schema"
)

type modelsCommand struct {
	List      modelsList      `cmd:"" default:"withargs" help:"List model packs: those shipped and those added."`
	Add       modelsAdd       `cmd:"" help:"Make a pack of a Hugging Face folder, or of a model on a hub."`
	Calibrate modelsCalibrate `cmd:"" help:"Find the thresholds, detector and confidence of a pack on questions with known answers."`
	Check     modelsCheck     `cmd:"" help:"Load a pack, run its goldens, and say what it can do or what is wrong."`
	Use       modelsUse       `cmd:"" help:"Choose the pack that 'sluice up' starts with."`
	Remove    modelsRemove    `cmd:"" help:"Delete an added pack."`
}

// packs has the flags with which a command finds the model packs.
type packs struct {
	config.DataDirectory
	JSON bool `help:"Print JSON, for programs."`
}

func (p packs) dir() (string, error) {
	data, err := dataDirectory(p.Data)
	return modelsDirectory(data), err
}

// modelsDirectory returns the folder of added packs in a data directory.
func modelsDirectory(data string) string { return filepath.Join(data, "models") }

type modelsList struct {
	packs
	config.ChosenPack
}

func (l *modelsList) Run() error {
	dir, err := l.dir()
	if err != nil {
		return err
	}
	all, err := modelpack.List(dir, l.ModelPack)
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(all)
	}
	return table("USE NAME SIZE DIMENSION TOKENS GRAPHS SOURCE", func(row func(...any)) {
		for _, p := range all {
			used, graphs := "", strings.Join(p.Graphs, ",")
			if p.InUse {
				used = "*"
			}
			if p.Problem != "" {
				graphs = "cannot be read: " + p.Problem
			}
			row(used, p.Name, bytesText(p.Bytes), number(p.Dimension), number(p.MaxTokens), graphs, strings.Join(p.Sources, ", "))
		}
	})
}

// number formats n; 0 is empty.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

type modelsAdd struct {
	packs
	config.Model
	config.Hub
	From      string  `arg:"" help:"A folder in Hugging Face's layout with an ONNX graph, a pack's folder, hf:org/name[@revision], or remote:PROVIDER/MODEL for a model behind an API."`
	Name      string  `help:"Name of the new pack; the model's when empty."`
	Graph     string  `placeholder:"FILE" help:"The graph, e.g. onnx/model_fp16.onnx; onnx/model.onnx or model.onnx when empty."`
	Onto      string  `placeholder:"PACK" help:"Pack whose other graphs the new one has too; the one in use when empty."`
	Alone     bool    `help:"Only the added graph; what needs others fails with this pack."`
	Pooling   string  `enum:"mean,cls,last,none," default:"" help:"How token vectors become one: mean, cls, last, or none when the graph does it; as the model says when empty."`
	Query     string  `name:"query-prompt" placeholder:"TEXT" help:"What an encoder wants in front of questions; as the model says when empty."`
	Passage   string  `name:"passage-prompt" placeholder:"TEXT" help:"What an encoder wants in front of passages; as the model says when empty."`
	Reranker  bool    `help:"Make a cross-encoder the pack's reranker, which reads the best few, instead of its pair model."`
	Tolerance float64 `help:"How far the graph may be from its fp32 original, for fp16 and int8; by its precision when 0."`
	Dimension int     `help:"Of a model behind an API: the dimension of its vectors."`
	Shorten   bool    `help:"Of a model behind an API: have its server give vectors of that dimension, which some models can."`
	MaxTokens int     `name:"max-tokens" help:"Of a model behind an API: tokens of a text that it reads."`
	Batch     int     `help:"Of a model behind an API: most texts that its server takes in one call; 96, or 32 of a reranker, when 0."`
	MaxSize   int64   `name:"max-size-mb" default:"2048" help:"Largest graph, in MB, that is taken."`
	Unchecked bool    `help:"Do not run the pack before it is added."`
}

// Help returns the long help text.
func (a *modelsAdd) Help() string {
	return "Models of the families of BERT, RoBERTa, XLM-R and ModernBERT can be added: encoders (vectors of texts) and cross-encoders " +
		"(relevance of a text for a question). The folder needs config.json, tokenizer.json or vocab.txt, and an ONNX graph. " +
		"An added encoder replaces the pack's encoder; a cross-encoder replaces its pair model, or with --reranker its reranker; " +
		"the other graphs stay as they are. remote:openai/MODEL is a model at a server with OpenAI's embeddings (SLUICE_EMBED_URL); with --reranker remote:cohere/MODEL, remote:llamacpp/MODEL or " +
		"remote:tei/MODEL is one at a server that reranks (SLUICE_RERANK_URL). " +
		"docs/model-packs.md has the details."
}

func (a *modelsAdd) Run(ctx context.Context) error {
	dir, err := a.dir()
	if err != nil {
		return err
	}
	add := modelpack.Addition{From: a.From, Name: a.Name, Graph: a.Graph, Pooling: a.Pooling, Reranker: a.Reranker, Tolerance: a.Tolerance,
		QueryPrompt: a.Query, PassagePrompt: a.Passage,
		Remote: modelpack.Remote{Dimension: a.Dimension, Shorten: a.Shorten, MaxTokens: a.MaxTokens, Batch: a.Batch}}
	switch {
	case a.Alone && a.Onto != "":
		return schema.Invalid("alone", "cannot be used with --onto")
	case a.Onto != "":
		if add.Onto, err = modelpack.Find(dir, a.Onto); err != nil {
			return err
		}
	case !a.Alone:
		if add.Onto, err = modelpack.Find(dir, a.ModelPack); err != nil {
			return err
		}
	}
	options := modelpack.Options{Dir: dir, Hub: a.HubURL, MaxGraph: a.MaxSize << 20, Dimensions: schema.VectorDimensions}
	unchecked := a.Unchecked
	if !unchecked {
		checker, err := newChecker(a.Model)
		if err != nil {
			unchecked = true
			fmt.Fprintln(a.notes(), "not checked: "+err.Error())
		} else {
			options.Check = checker.validate
		}
	}
	added, err := modelpack.Add(ctx, options, add)
	if err != nil {
		return err
	}
	if a.JSON {
		return printJSON(struct {
			modelpack.Added
			Checked bool `json:"checked"`
		}{added, !unchecked})
	}
	return a.print(added)
}

func (a *modelsAdd) print(added modelpack.Added) error {
	p := added.Pack
	what := "a copy of a pack"
	switch added.Role {
	case modelpack.RoleEncoder:
		what = fmt.Sprintf("encoder, %s, vectors of dimension %d, texts of up to %d tokens", added.Precision, p.Dimension, p.MaxTokens)
	case modelpack.RolePair:
		what = fmt.Sprintf("cross-encoder, %s", added.Precision)
	case modelpack.RoleReranker:
		what = fmt.Sprintf("cross-encoder as the reranker, %s", added.Precision)
	}
	fmt.Printf("added %s: %s; %s in %s\n", p.Name, what, bytesText(p.Bytes), p.Path)
	fmt.Printf("graphs: %s\n", strings.Join(p.Graphs, ", "))
	for _, note := range added.Notes {
		fmt.Println("note: " + printable(note))
	}
	fmt.Printf("`sluice models use %s` makes `sluice up` start with it\n", p.Name)
	return nil
}

type modelsUse struct {
	packs
	Pack string `arg:"" help:"Name of an added pack, or of one that is shipped: default or large."`
}

func (u *modelsUse) Run() error {
	dir, err := u.dir()
	if err != nil {
		return err
	}
	before, _, err := packInUse(dir)
	if err != nil {
		return err
	}
	if err := modelpack.Use(dir, u.Pack); err != nil {
		return err
	}
	now, found, err := packInUse(dir)
	if err != nil {
		return err
	}
	if u.JSON {
		return printJSON(map[string]string{"in_use": u.Pack, "space": now.Space, "space_before": before.Space})
	}
	fmt.Printf("`sluice up` starts with %s from now on; restart it if it runs\n", u.Pack)
	if found && before.Space == now.Space {
		fmt.Printf("It makes vectors of the same space as before, %s: collections stay as they are.\n", now.Space)
		return nil
	}
	fmt.Printf("It makes vectors of the space %s. A collection with vectors of another space is searched by keywords only and takes no\n"+
		"new documents, until `sluice collections rebuild NAME` has encoded it again; it stays searchable meanwhile.\n", cmp.Or(now.Space, "none"))
	return nil
}

// packInUse returns the chosen pack in dir; found is false if there is none.
func packInUse(dir string) (pack modelpack.Pack, found bool, err error) {
	all, err := modelpack.List(dir, "")
	if i := slices.IndexFunc(all, func(p modelpack.Pack) bool { return p.InUse }); i >= 0 {
		return all[i], true, err
	}
	return modelpack.Pack{}, false, err
}

type modelsRemove struct {
	packs
	Pack string `arg:"" help:"Name of an added pack."`
}

func (r *modelsRemove) Run() error {
	dir, err := r.dir()
	if err != nil {
		return err
	}
	if err := modelpack.Remove(dir, r.Pack); err != nil {
		return err
	}
	if r.JSON {
		return printJSON(map[string]any{"pack": r.Pack, "removed": true})
	}
	fmt.Println("removed " + r.Pack)
	return nil
}
