package main

// This file compares the model server's runs of a graph with those of onnxruntime-node, a C++
// binding to the same library, on the same tensors: batches of texts with the same number of
// tokens. Each batch is run by one program, then by the other, then comes the next batch: a run
// after other work takes longer than a run in a loop of equal ones, whose weights and tensors are
// in the caches, and a server's runs are never in such a loop.

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema/wire"
)

//go:embed models_node.mjs
var nodeScript []byte

// nodePackage is the npm package, in the version whose library `make setup` uses.
const nodePackage = "onnxruntime-node@1.30.0"

// shapes are the batches to compare, rows by tokens. Each fits one of the server's batches on a
// CPU. Batches of pairs have fewer rows: see batch.PairTokens.
var shapes = [][2]int{{batch.TextTokens / 32, 32}, {batch.TextTokens / 128, 128}, {batch.TextTokens / 512, 512}}

func (c *modelsCommand) compareNode(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings, row func(string, func() error)) error {
	pack := c.Pack
	if pack == "" {
		var err error
		if pack, err = modelpack.Shipped(); err != nil {
			return err
		}
	}
	words, err := tokenizer.Load(filepath.Join(pack, "tokenizer.json"))
	if err != nil {
		return err
	}
	graphs := []string{"encoder"}
	if b.can(wire.OpScore) {
		graphs = append(graphs, "pair")
	}
	for _, graph := range graphs {
		row(graph+" graph beside onnxruntime-node", func() error {
			return c.besideGraph(ctx, b, t, f, words, graph, filepath.Join(pack, graph+".onnx"))
		})
	}
	return nil
}

func (c *modelsCommand) besideGraph(ctx context.Context, b *modelInstallation, t *modelTexts, f *findings, words *tokenizer.Tokenizer, graph, file string) (err error) {
	n, err := startNode(ctx, b.dir, c.Node, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	const passes = 20
	question := t.questions[0]
	asked, _ := words.Encode(nil, question, 0)
	var texts [][]string
	var request nodeRequest
	for _, shape := range shapes {
		if graph == "pair" {
			shape[1] = min(shape[1], b.info.Limits[wire.OpScore])
			shape[0] = max(1, batch.PairTokens/(shape[1]+len(asked)+4))
		}
		rows, ids := t.exactly(words, shape[0], shape[1])
		texts = append(texts, rows)
		request.Batches = append(request.Batches, ids)
	}
	if graph == "pair" {
		request.Question = asked
	}
	tokens := 0
	for _, rows := range request.Batches {
		tokens += len(rows) * len(rows[0])
	}
	if err := n.load(ctx, request); err != nil {
		return err
	}
	ask := func(rows []string) (err error) {
		if graph == "pair" {
			_, _, err = b.client.Score(ctx, wire.LaneBulk, question, rows, false)
		} else {
			_, _, err = b.client.Encode(ctx, wire.LaneBulk, rows)
		}
		return err
	}
	var ours, theirs, looped []float64 // tokens/s by round
	for round := range c.Rounds {
		before, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		took := 0.0
		for range passes {
			for i, rows := range texts {
				// The order changes with every round.
				if round%2 == 0 {
					if err := ask(rows); err != nil {
						return err
					}
				}
				seconds, err := n.run(ctx, i, 1)
				if err != nil {
					return err
				}
				took += seconds
				if round%2 == 1 {
					if err := ask(rows); err != nil {
						return err
					}
				}
			}
		}
		now, err := b.snapshot(ctx)
		if err != nil {
			return err
		}
		if runs := now.runs[graph] - before.runs[graph]; runs != float64(passes*len(texts)) {
			return fmt.Errorf("the server ran %g batches of graph %s for %d requests: the tensors are not the same", runs, graph, passes*len(texts))
		}
		if padded := now.padding[graph] - before.padding[graph]; graph == "encoder" && padded != 0 {
			return fmt.Errorf("the server padded %g tokens: the tensors are not the same", padded)
		}
		done := float64(passes * tokens)
		ours, theirs = append(ours, done/(now.running[graph]-before.running[graph])), append(theirs, done/took)
		took = 0
		for i := range texts {
			seconds, err := n.run(ctx, i, passes)
			if err != nil {
				return err
			}
			took += seconds
		}
		looped = append(looped, done/took)
	}
	f.compare(ratio{What: graph + " graph, same tensors", Unit: "tokens/s", Ours: ours, Other: theirs, Against: "onnxruntime-node", Target: 0.95})
	f.compare(ratio{What: graph + " graph, runs between requests against a loop of runs", Unit: "tokens/s", Ours: ours, Other: looped, Against: "onnxruntime-node"})
	return nil
}

// exactly returns texts with an exact number of tokens, none of which repeats, and their token ids:
// the server reads repeated tokens once.
func (t *modelTexts) exactly(words *tokenizer.Tokenizer, rows, tokens int) (texts []string, ids [][]int32) {
	for at := 0; len(texts) < rows; at++ {
		var text strings.Builder
		have := map[int32]bool{}
		for i := at * 37; len(have) < tokens; i++ {
			for _, word := range strings.Fields(t.sentences[i%len(t.sentences)]) {
				own, _ := words.Encode(nil, word, 0)
				distinct := slices.Compact(slices.Sorted(slices.Values(own)))
				known := func(id int32) bool { return have[id] }
				if len(distinct) < len(own) || len(have)+len(own) > tokens || slices.ContainsFunc(own, known) {
					continue
				}
				text.WriteString(word + " ")
				for _, id := range own {
					have[id] = true
				}
			}
		}
		row, _ := words.Encode(nil, text.String(), 0)
		texts, ids = append(texts, text.String()), append(ids, row)
	}
	return texts, ids
}

// node is a process that runs one graph with onnxruntime-node.
type node struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *bufio.Reader
	errors strings.Builder
}

// nodeRequest either sends batches of token ids to be made into tensors, as pairs if there is a
// question, or runs one of these batches several times.
type nodeRequest struct {
	Batches  [][][]int32 `json:"batches,omitempty"`
	Question []int32     `json:"question,omitempty"`
	Batch    int         `json:"batch"`
	Runs     int         `json:"runs"`
}

// startNode loads a graph. It installs missing packages with npm.
func startNode(ctx context.Context, dir, modules, graph string) (*node, error) {
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "onnxruntime-node")); err != nil {
		progressf("models: npm installs %s in %s", nodePackage, modules)
		install := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--prefix", modules, nodePackage)
		if output, err := install.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("install %s, which is measured beside Sluice: %w\n%s", nodePackage, err, output)
		}
	}
	script := filepath.Join(dir, "models_node.mjs")
	if err := os.WriteFile(script, nodeScript, 0o600); err != nil {
		return nil, fmt.Errorf("write a script for Node: %w", err)
	}
	n := &node{cmd: exec.Command("node", script, modules, graph)}
	n.cmd.Env = append(os.Environ(), modelpack.NoTelemetry+"=1")
	n.cmd.Stderr = &n.errors
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		n.stdin, err = n.cmd.StdinPipe()
	}
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n.out = bufio.NewReader(out)
	return n, nil
}

// load makes tensors of batches, and runs each once.
func (n *node) load(ctx context.Context, r nodeRequest) error {
	_, err := n.ask(ctx, r)
	return err
}

// run runs a batch a number of times, one after another, and returns the seconds that it took.
func (n *node) run(ctx context.Context, batch, runs int) (float64, error) {
	return n.ask(ctx, nodeRequest{Batch: batch, Runs: runs})
}

func (n *node) ask(ctx context.Context, r nodeRequest) (float64, error) {
	stop := context.AfterFunc(ctx, func() { _ = n.cmd.Process.Kill() })
	defer stop()
	var reply struct{ Seconds float64 }
	err := json.NewEncoder(n.stdin).Encode(r)
	if err == nil {
		var line string
		if line, err = n.out.ReadString('\n'); err == nil {
			err = json.Unmarshal([]byte(line), &reply)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("onnxruntime-node: %w %s", err, n.errors.String())
	}
	return reply.Seconds, nil
}

func (n *node) close() error {
	_ = n.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = n.cmd.Process.Kill() })
	defer kill.Stop()
	if err := n.cmd.Wait(); err != nil {
		return fmt.Errorf("stop node: %w %s", err, n.errors.String())
	}
	return nil
}
