package inference

// This file runs one ONNX graph: it checks that the file has the inputs and outputs that its role
// needs, and runs it on batches with pooled buffers. All goroutines share a session.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
)

type port struct {
	name string
	kind ort.TensorElementDataType
	rank int
}

func (p port) String() string { return fmt.Sprintf("%s (%s, rank %d)", p.name, p.kind, p.rank) }

type graph struct {
	session *ort.DynamicAdvancedSession
	inputs  []string              // in the order in which run takes them
	outputs []ort.InputOutputInfo // the requested ones, in the order of the request
}

// optionalPorts are ports that a graph may lack. They come after the others. Optional inputs are
// int64 and have a default in the graph.
type optionalPorts struct{ inputs, outputs []port }

// openGraph loads path and checks its inputs and outputs. The graph may have more outputs, which
// are not computed, and more inputs with a default, which they have then.
func openGraph(path string, inputs, outputs []port, options *ort.SessionOptions) (*graph, error) {
	return openGraphWith(path, inputs, outputs, optionalPorts{}, options)
}

// openGraphWith does the same with optional inputs and outputs.
func openGraphWith(path string, inputs, outputs []port, optional optionalPorts, options *ort.SessionOptions) (*graph, error) {
	inputInfo, outputInfo, err := ort.GetInputOutputInfoWithOptions(path, options)
	if err != nil {
		return nil, fmt.Errorf("load graph %s: %w", path, err)
	}
	if err := checkPorts(inputInfo, inputs); err != nil {
		return nil, fmt.Errorf("graph %s: inputs: %w", path, err)
	}
	if len(optional.inputs) > 0 {
		// ONNX Runtime does not list inputs with a default.
		g, err := modelpack.ReadGraph(path)
		if err != nil {
			return nil, fmt.Errorf("load graph: %w", err)
		}
		for _, input := range optional.inputs {
			i := slices.IndexFunc(g.Defaults, func(p modelpack.Port) bool { return p.Name == input.name })
			if i < 0 {
				continue
			}
			if p := g.Defaults[i]; p.Type != "int64" || len(p.Dimensions) != input.rank {
				return nil, fmt.Errorf("graph %s: inputs: want %s, the graph has %s", path, input, p)
			}
			inputs = append(slices.Clip(inputs), input)
		}
	}
	for _, output := range optional.outputs {
		if slices.ContainsFunc(outputInfo, func(i ort.InputOutputInfo) bool { return i.Name == output.name }) {
			outputs = append(slices.Clip(outputs), output)
		}
	}
	var found []ort.InputOutputInfo
	for _, output := range outputs {
		i := slices.IndexFunc(outputInfo, func(i ort.InputOutputInfo) bool { return i.Name == output.name })
		if i < 0 {
			return nil, fmt.Errorf("graph %s: has no output %s, only %s", path, output, portNames(outputInfo))
		}
		found = append(found, outputInfo[i])
	}
	if err := checkPorts(found, outputs); err != nil {
		return nil, fmt.Errorf("graph %s: outputs: %w", path, err)
	}
	session, err := ort.NewDynamicAdvancedSession(path, namesOf(inputs), namesOf(outputs), options)
	if err != nil {
		return nil, fmt.Errorf("load graph %s: %w", path, err)
	}
	return &graph{session: session, inputs: namesOf(inputs), outputs: found}, nil
}

func namesOf(ports []port) []string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.name
	}
	return names
}

func checkPorts(info []ort.InputOutputInfo, want []port) error {
	for _, w := range want {
		i := slices.IndexFunc(info, func(i ort.InputOutputInfo) bool { return i.Name == w.name })
		if i < 0 {
			return fmt.Errorf("%s is missing, there are %s", w, portNames(info))
		}
		if h := info[i]; h.DataType != w.kind || len(h.Dimensions) != w.rank {
			return fmt.Errorf("want %s, the graph has %s", w, info[i].String())
		}
	}
	if len(info) != len(want) {
		return fmt.Errorf("want %v, the graph has %s", want, portNames(info))
	}
	return nil
}

func portNames(ports []ort.InputOutputInfo) string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

// run runs the graph. It stops early when ctx ends.
func (g *graph) run(ctx context.Context, inputs, outputs []ort.Value) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	options, err := ort.NewRunOptions()
	if err != nil {
		return fmt.Errorf("make run options: %w", err)
	}
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		_ = options.Terminate()
	})
	err = g.session.RunWithOptions(inputs, outputs, options)
	if !stop() {
		<-terminated
		err = errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, options.Destroy())
}

func (g *graph) close() error { return g.session.Destroy() }

// tensors creates the tensors of one run and frees them together. The caller keeps the data, so
// that it can be pooled.
type tensors struct {
	all []ort.Value
	err error
}

func tensor[T ort.TensorData](t *tensors, data []T, shape ...int64) ort.Value {
	value, err := ort.NewTensor(ort.NewShape(shape...), data)
	if err != nil {
		t.err = errors.Join(t.err, fmt.Errorf("make a tensor of shape %v: %w", shape, err))
		return nil
	}
	t.all = append(t.all, value)
	return value
}

func (t *tensors) free() {
	for _, v := range t.all {
		_ = v.Destroy()
	}
}

// grow returns a slice of n elements, in the memory of s if that is large enough. The elements are
// not cleared.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// fillRow writes a row of ids and its mask, padded to width.
func fillRow(allIDs, allMask []int64, row, width int, tokens []int32, pad int64) {
	ids, mask := allIDs[row*width:(row+1)*width], allMask[row*width:(row+1)*width]
	for i, id := range tokens {
		ids[i], mask[i] = int64(id), 1
	}
	for i := len(tokens); i < width; i++ {
		ids[i], mask[i] = pad, 0
	}
}
