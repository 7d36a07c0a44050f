package main

// This file compares the model server's runs of a graph with those of onnxruntime-node, a C++ binding to the same
// library, on the same tensors: batches of texts that all have the same number of tokens.

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
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema/wire"
)

//go:embed models_node.mjs
var nodeScript []byte

// nodePackage is what npm installs: the version whose library `make setup` takes.
const nodePackage = "onnxruntime-node@1.30.0"

// shapes are the batches that are compared, rows by tokens: each fits one of the server's batches on a CPU. Of pairs there are
// fewer rows: see batch.PairTokens.
var shapes = [][2]int{{batch.TextTokens / 32, 32}, {batch.TextTokens / 128, 128}, {batch.TextTokens / 512, 512}}

func (c *modelsCommand) beside(ctx context.Context, b *modelBed, t *modelTexts, f *findings, row func(string, func() error)) error {
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

func (c *modelsCommand) besideGraph(ctx context.Context, b *modelBed, t *modelTexts, f *findings, words *tokenizer.Tokenizer, graph, file string) (err error) {
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
	request.Passes = passes
	tokens := 0
	for _, rows := range request.Batches {
		tokens += len(rows) * len(rows[0])
	}
	ours := side{"Sluice", func(ctx context.Context, _ int) (float64, time.Duration, error) {
		before, err := b.look(ctx)
		if err != nil {
			return 0, 0, err
		}
		for range passes {
			for _, rows := range texts {
				if graph == "pair" {
					_, _, err = b.client.Score(ctx, wire.LaneBulk, question, rows, false)
				} else {
					_, _, err = b.client.Encode(ctx, wire.LaneBulk, rows)
				}
				if err != nil {
					return 0, 0, err
				}
			}
		}
		now, err := b.look(ctx)
		if err != nil {
			return 0, 0, err
		}
		if runs := now.runs[graph] - before.runs[graph]; runs != float64(passes*len(texts)) {
			return 0, 0, fmt.Errorf("the server ran %g batches of graph %s for %d requests: the tensors are not the same", runs, graph, passes*len(texts))
		}
		if padded := now.padding[graph] - before.padding[graph]; graph == "encoder" && padded != 0 {
			return 0, 0, fmt.Errorf("the server padded %g tokens: the tensors are not the same", padded)
		}
		return float64(passes * tokens), time.Duration((now.running[graph] - before.running[graph]) * float64(time.Second)), nil
	}}
	theirs := side{"onnxruntime-node", func(ctx context.Context, _ int) (float64, time.Duration, error) {
		seconds, err := n.run(ctx, request)
		return float64(passes * tokens), time.Duration(seconds * float64(time.Second)), err
	}}
	rates, err := rounds(ctx, c.Rounds, ours, theirs)
	if err != nil {
		return err
	}
	f.compare(ratio{What: graph + " graph, same tensors", Unit: "tokens/s", Ours: rates[0], Other: rates[1], Against: "onnxruntime-node", Target: 0.95})
	return nil
}

// exactly makes texts of so many tokens each, and gives their ids.
func (t *modelTexts) exactly(words *tokenizer.Tokenizer, rows, tokens int) (texts []string, ids [][]int32) {
	for at := 0; len(texts) < rows; at++ {
		var text strings.Builder
		have := 0
		for i := at * 37; have < tokens; i++ {
			for _, word := range strings.Fields(t.sentences[i%len(t.sentences)]) {
				if _, n := words.Encode(nil, word, 0); have+n <= tokens {
					text.WriteString(word + " ")
					have += n
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

// nodeRequest has batches of rows of token ids run, all of them several times; a question makes pairs of them.
type nodeRequest struct {
	Batches  [][][]int32 `json:"batches"`
	Question []int32     `json:"question,omitempty"`
	Passes   int         `json:"passes"`
}

// startNode loads a graph, and has npm install what is missing.
func startNode(ctx context.Context, dir, modules, graph string) (*node, error) {
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "onnxruntime-node")); err != nil {
		say("models: npm installs %s in %s", nodePackage, modules)
		install := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--prefix", modules, nodePackage)
		if said, err := install.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("install %s, which is measured beside Sluice: %w\n%s", nodePackage, err, said)
		}
	}
	script := filepath.Join(dir, "models_node.mjs")
	if err := os.WriteFile(script, nodeScript, 0o600); err != nil {
		return nil, fmt.Errorf("write a script for Node: %w", err)
	}
	n := &node{cmd: exec.Command("node", script, modules, graph)}
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

// run returns the seconds that the runs took.
func (n *node) run(ctx context.Context, r nodeRequest) (float64, error) {
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
