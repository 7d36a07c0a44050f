package modelpack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// nested returns a field that holds a message.
func nested(number protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(fields, nil))
}

func number(field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), value)
}

// matrix returns a ValueInfoProto. A dimension of 0 is not fixed.
func matrix(name string, kind uint64, dimensions ...uint64) []byte {
	var shape [][]byte
	for _, d := range dimensions {
		if d == 0 {
			shape = append(shape, nested(1, nested(2, []byte("n")))) // dim_param
		} else {
			shape = append(shape, nested(1, number(1, d)))
		}
	}
	return bytes.Join([][]byte{nested(1, []byte(name)), nested(2, nested(1, number(1, kind), nested(2, shape...)))}, nil)
}

func modelProto(fields ...[]byte) []byte { return append(number(1, 8), nested(7, fields...)...) }

const (
	float32Type = 1
	int64Type   = 7
)

// graphOf replaces a graph with one that has other inputs.
func graphOf(t *testing.T, name string, inputs []string) func(string) {
	var fields [][]byte
	for _, i := range inputs {
		fields = append(fields, nested(11, matrix(i, int64Type, 0, 0)))
	}
	return put(t, name, string(modelProto(append(fields, nested(12, matrix("last_hidden_state", float32Type, 0, 0, 32)))...)))
}

// graph replaces a graph with one that has the given number of logits.
func graph(t *testing.T, name string, labels uint64) func(string) {
	return put(t, name, string(modelProto(nested(11, matrix("input_ids", int64Type, 0, 0)), nested(11, matrix("attention_mask", int64Type, 0, 0)),
		nested(12, matrix("logits", float32Type, 0, labels)))))
}

func TestReadsInputsAndOutputsOfGraphs(t *testing.T) {
	g, err := ReadGraph(filepath.Join(models, "bert-mean/onnx/model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(g.Inputs); got != "input_ids, attention_mask, token_type_ids" {
		t.Errorf("inputs %s", got)
	}
	if p, ok := g.Input("input_ids"); !ok || p.Type != "int64" || len(p.Dimensions) != 2 || p.Dimensions[0] != 0 {
		t.Errorf("input_ids is %v", p)
	}
	if p, ok := g.Output("last_hidden_state"); !ok || p.Type != "float32" || len(p.Dimensions) != 3 || p.Dimensions[2] != 32 {
		t.Errorf("last_hidden_state is %v", p)
	}
	if g.External || g.Weights["float32"] < 50_000 {
		t.Errorf("external %v, weights %v", g.External, g.Weights)
	}
	for file, want := range map[string]string{"model.onnx": "fp32", "model_fp16.onnx": "fp16", "model_quantized.onnx": "int8"} {
		g, err := ReadGraph(filepath.Join(models, "bert-mean/onnx", file))
		if err != nil || g.Precision() != want {
			t.Errorf("%s is %s of %v, %v", file, g.Precision(), g.Weights, err)
		}
	}
}

func TestWeightsAreNoInputs(t *testing.T) {
	weight := nested(5, nested(1, protowire.AppendVarint(protowire.AppendVarint(nil, 3), 4)), number(2, float32Type), nested(8, []byte("w")), nested(9, make([]byte, 48)))
	data := modelProto(weight, nested(11, matrix("w", float32Type, 3, 4)), nested(11, matrix("x", int64Type, 0)), nested(12, matrix("y", float32Type, 0)))
	g, err := parseGraph(bytes.NewReader(data), int64(len(data)))
	if err != nil || names(g.Inputs) != "x" || names(g.Defaults) != "w" || g.Weights["float32"] != 48 || g.External {
		t.Errorf("%+v, %v", g, err)
	}
	outside := modelProto(nested(5, number(2, float32Type), nested(8, []byte("w")), number(14, 1)), nested(12, matrix("y", float32Type, 0)))
	if g, err := parseGraph(bytes.NewReader(outside), int64(len(outside))); err != nil || !g.External {
		t.Errorf("%+v, %v", g, err)
	}
	for cut := range data {
		if _, err := parseGraph(bytes.NewReader(data[:cut]), int64(cut)); err == nil && cut > 2 {
			t.Errorf("%d of %d bytes were taken", cut, len(data))
		}
		if _, err := parseGraph(bytes.NewReader(data[:cut]), int64(len(data))); err == nil {
			t.Errorf("%d of %d bytes were taken as whole", cut, len(data))
		}
	}
}

func FuzzGraph(f *testing.F) {
	real, err := os.ReadFile(filepath.Join(models, "cross-encoder/onnx/model.onnx"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(real[:2000])
	f.Add(modelProto(nested(11, matrix("x", int64Type, 0, 3)), nested(12, matrix("y", 99, 1<<63))))
	f.Add(modelProto(nested(5, number(1, 1<<62), number(1, 1<<62), number(2, 1))))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parseGraph(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		_ = g.Precision()
		for _, p := range append(g.Inputs, g.Outputs...) {
			for _, d := range p.Dimensions {
				if d < 0 {
					t.Errorf("%v", p)
				}
			}
		}
	})
}
