package modelpack

// This file writes a detector as an ONNX file: fully connected layers with a ReLU after each but
// the last, and a sigmoid after that.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-rag/sluice/schema"
)

// Layer is a fully connected layer: out[j] = bias[j] + sum over i of in[i] * weights[i][j].
type Layer struct {
	Weights [][]float32 // by input, then by output
	Bias    []float32
}

// Versions of ONNX that detectors are written in, and the numbers of its protocol buffer fields
// (onnx.proto).
const (
	onnxIR, onnxOperators = 8, 17

	modelIR, modelProducer, modelGraph, modelOperators                  = 1, 2, 7, 8
	operatorsVersion                                                    = 2
	graphNode, graphName, graphInitializer, graphInput, graphOutput     = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeOperator                                 = 1, 2, 4
	tensorDimension, tensorType, tensorName, tensorData                 = 1, 2, 8, 9
	valueName, valueType, typeTensor, typeElement, typeShape, dimension = 1, 2, 1, 1, 2, 1
	dimensionValue, dimensionName                                       = 1, 2
	elementFloat, elementInt64                                          = 1, 7
)

// detectorGraph returns the ONNX file of layers: scores float32 [n, inputs] -> enough float32 [n].
func detectorGraph(layers []Layer) ([]byte, error) {
	if len(layers) == 0 || len(layers[len(layers)-1].Bias) != 1 {
		return nil, schema.Invalid("detector", "has no last layer with one output")
	}
	var graph record
	graph.text(graphName, "detector")
	last := "scores"
	node := func(operator string, inputs ...string) {
		var n record
		for _, in := range append([]string{last}, inputs...) {
			n.text(nodeInput, in)
		}
		last = fmt.Sprintf("%s_%d", operator, graph.nodes)
		n.text(nodeOutput, last)
		n.text(nodeOperator, operator)
		graph.message(graphNode, n)
		graph.nodes++
	}
	inputs := len(layers[0].Weights)
	for i, l := range layers {
		if len(l.Weights) != inputs {
			return nil, schema.Invalid("detector", "layer %d has %d inputs, the one before it %d outputs", i, len(l.Weights), inputs)
		}
		var weights []float32
		for _, row := range l.Weights {
			if len(row) != len(l.Bias) {
				return nil, schema.Invalid("detector", "layer %d has %d weights for %d outputs", i, len(row), len(l.Bias))
			}
			weights = append(weights, row...)
		}
		w, b := fmt.Sprintf("weights_%d", i), fmt.Sprintf("bias_%d", i)
		graph.message(graphInitializer, tensorOf(w, elementFloat, floats(weights), inputs, len(l.Bias)))
		graph.message(graphInitializer, tensorOf(b, elementFloat, floats(l.Bias), len(l.Bias)))
		node("MatMul", w)
		node("Add", b)
		if i < len(layers)-1 {
			node("Relu")
		}
		inputs = len(l.Bias)
	}
	node("Sigmoid")
	graph.message(graphInitializer, tensorOf("shape", elementInt64, binary.LittleEndian.AppendUint64(nil, math.MaxUint64), 1)) // -1: all rows
	// The last node's output has the name that the model server reads.
	var reshape record
	for _, in := range []string{last, "shape"} {
		reshape.text(nodeInput, in)
	}
	reshape.text(nodeOutput, "enough")
	reshape.text(nodeOperator, "Reshape")
	graph.message(graphNode, reshape)
	graph.message(graphInput, valueOf("scores", len(layers[0].Weights)))
	graph.message(graphOutput, valueOf("enough"))

	var operators, model record
	operators.number(operatorsVersion, onnxOperators)
	model.number(modelIR, onnxIR)
	model.text(modelProducer, "sluice")
	model.message(modelGraph, graph)
	model.message(modelOperators, operators)
	return model.bytes, nil
}

// forward computes the output of layers for scores.
func forward(layers []Layer, scores []float32) float32 {
	values := make([]float64, len(scores))
	for i, s := range scores {
		values[i] = float64(s)
	}
	for k, l := range layers {
		next := make([]float64, len(l.Bias))
		for j, b := range l.Bias {
			next[j] = float64(b)
			for i, v := range values {
				next[j] += v * float64(l.Weights[i][j])
			}
			if k < len(layers)-1 {
				next[j] = max(0, next[j])
			}
		}
		values = next
	}
	return float32(1 / (1 + math.Exp(-values[0])))
}

// goldenScores are has_answer and llm_prefer of the texts of a window, highest sum first.
var goldenScores = [][2]float32{{4.1, 1.6}, {2.75, -0.4}, {1.9, -1.1}, {0.3, -1.5}, {-0.6, -2.2}, {-0.9, -2.75}, {-1.4, -3.1}, {-2.2, -3}, {-2.6, -3.9}, {-3.5, -4.25}}

// writeDetectorGoldens writes the goldens of the pack in dir into staged. The detector's are
// replaced by what layers return when they are computed here.
func writeDetectorGoldens(dir, staged string, layers []Layer) error {
	all := map[string]any{}
	data, err := os.ReadFile(filepath.Join(dir, goldensName))
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the goldens of %s: %w", dir, err)
	}
	type golden struct {
		Pairs  [][2]float32 `json:"pairs"`
		Enough float32      `json:"enough"`
	}
	var goldens []golden
	for _, n := range []int{0, 1, 2, 5, len(goldenScores)} {
		scores := make([]float32, len(layers[0].Weights))
		for i, pair := range goldenScores[:n] {
			copy(scores[2*i:], pair[:])
		}
		goldens = append(goldens, golden{append([][2]float32{}, goldenScores[:n]...), forward(layers, scores)})
	}
	all["detector"] = goldens
	if data, err = json.Marshal(all); err != nil {
		return err
	}
	_, err = write(staged, goldensName, data)
	return err
}

// record is a protocol buffer that is being written.
type record struct {
	bytes []byte
	nodes int
}

func (m *record) number(field protowire.Number, v uint64) {
	m.bytes = protowire.AppendVarint(protowire.AppendTag(m.bytes, field, protowire.VarintType), v)
}

func (m *record) text(field protowire.Number, s string) {
	m.bytes = protowire.AppendString(protowire.AppendTag(m.bytes, field, protowire.BytesType), s)
}

func (m *record) message(field protowire.Number, inner record) {
	m.bytes = protowire.AppendBytes(protowire.AppendTag(m.bytes, field, protowire.BytesType), inner.bytes)
}

func tensorOf(name string, element uint64, data []byte, dimensions ...int) record {
	var t record
	for _, d := range dimensions {
		t.number(tensorDimension, uint64(d))
	}
	t.number(tensorType, element)
	t.text(tensorName, name)
	t.message(tensorData, record{bytes: data})
	return t
}

// valueOf returns a float32 input or output of n rows.
func valueOf(name string, columns ...int) record {
	var value, kind, tensor, shape, rows record
	rows.text(dimensionName, "n")
	shape.message(dimension, rows)
	for _, c := range columns {
		var d record
		d.number(dimensionValue, uint64(c))
		shape.message(dimension, d)
	}
	tensor.number(typeElement, elementFloat)
	tensor.message(typeShape, shape)
	kind.message(typeTensor, tensor)
	value.text(valueName, name)
	value.message(valueType, kind)
	return value
}

func floats(values []float32) []byte {
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}
