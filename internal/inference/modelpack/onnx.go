package modelpack

// This file reads the inputs, the outputs and the types of the weights from an ONNX file. It reads
// the protocol buffer as a stream and skips the weights, so a graph of a gigabyte takes little time
// and memory.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Graph is the description of an ONNX file.
type Graph struct {
	Inputs, Outputs []Port
	Defaults        []Port           // inputs that need not be given, because they have a default
	Weights         map[string]int64 // bytes of the weights, by element type
	External        bool             // weights are in other files
}

// Port is an input or output of a graph. Dimensions that are not fixed are 0.
type Port struct {
	Name       string
	Type       string // float32, int64, ...
	Dimensions []int64
}

func (p Port) String() string { return fmt.Sprintf("%s %s%v", p.Name, p.Type, p.Dimensions) }

// Input and Output return the port of a name.
func (g Graph) Input(name string) (Port, bool)  { return port(g.Inputs, name) }
func (g Graph) Output(name string) (Port, bool) { return port(g.Outputs, name) }

func port(ports []Port, name string) (Port, bool) {
	at := slices.IndexFunc(ports, func(p Port) bool { return p.Name == name })
	if at < 0 {
		return Port{}, false
	}
	return ports[at], true
}

func names(ports []Port) string {
	var all []string
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

// Precision returns int8 or fp16 if more than a tenth of the bytes of the weights has that type,
// else fp32. Quantised graphs keep some weights in full precision.
func (g Graph) Precision() string {
	total := int64(0)
	for _, n := range g.Weights {
		total += n
	}
	switch {
	case 10*(g.Weights["int8"]+g.Weights["uint8"]) > total:
		return "int8"
	case 10*g.Weights["float16"] > total:
		return "fp16"
	}
	return "fp32"
}

// elementTypes are the types of TensorProto.DataType that occur in graphs of the BERT family, with
// their sizes in bytes.
var elementTypes = map[uint64]struct {
	name  string
	bytes int64
}{
	1: {"float32", 4}, 2: {"uint8", 1}, 3: {"int8", 1}, 6: {"int32", 4}, 7: {"int64", 8}, 9: {"bool", 1}, 10: {"float16", 2}, 11: {"float64", 8}, 16: {"bfloat16", 2},
}

func typeName(number uint64) string {
	if t, ok := elementTypes[number]; ok {
		return t.name
	}
	return fmt.Sprintf("element type %d", number)
}

// errNotONNX is the error for a file that is not an ONNX graph.
var errNotONNX = errors.New("this is no ONNX graph")

// ReadGraph reads the file at path.
func ReadGraph(path string) (Graph, error) {
	file, err := os.Open(path)
	if err != nil {
		return Graph{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return Graph{}, err
	}
	g, err := parseGraph(file, info.Size())
	if err != nil {
		return Graph{}, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

func parseGraph(r io.Reader, size int64) (Graph, error) {
	g := Graph{Weights: map[string]int64{}}
	weights := map[string]bool{} // older exporters list all of these among the inputs
	found := false
	m := message{r: bufio.NewReaderSize(r, 64<<10), remaining: size}
	err := m.fields(func(number protowire.Number, value uint64, submessage *message) error {
		if number != 7 || submessage == nil { // ModelProto.graph
			return nil
		}
		found = true
		return submessage.fields(func(number protowire.Number, _ uint64, submessage *message) error {
			switch {
			case submessage == nil:
			case number == 5: // GraphProto.initializer
				return g.weight(submessage, weights)
			case number == 11: // input
				return addPort(&g.Inputs, submessage)
			case number == 12: // output
				return addPort(&g.Outputs, submessage)
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return Graph{}, fmt.Errorf("%w: %w", errNotONNX, err)
	case !found || len(g.Outputs) == 0:
		return Graph{}, fmt.Errorf("%w: it has no graph", errNotONNX)
	}
	for _, p := range g.Inputs {
		if weights[p.Name] {
			g.Defaults = append(g.Defaults, p)
		}
	}
	g.Inputs = slices.DeleteFunc(g.Inputs, func(p Port) bool { return weights[p.Name] })
	return g, nil
}

// weight reads a TensorProto without its data.
func (g *Graph) weight(m *message, names map[string]bool) error {
	var kind uint64
	elements := int64(1)
	err := m.fields(func(number protowire.Number, value uint64, submessage *message) error {
		switch number {
		case 1: // dims, packed or one by one
			if submessage == nil {
				elements *= int64(value)
				return nil
			}
			data, err := submessage.bytes(1 << 10)
			for err == nil && len(data) > 0 {
				v, n := protowire.ConsumeVarint(data)
				if n < 0 {
					return protowire.ParseError(n)
				}
				elements *= int64(v)
				data = data[n:]
			}
			return err
		case 2: // data_type
			kind = value
		case 8: // name
			if submessage != nil {
				name, err := submessage.bytes(maxName)
				names[string(name)] = true
				return err
			}
		case 14: // data_location
			g.External = g.External || value == 1
		}
		return nil
	})
	if bytes := elementTypes[kind].bytes; bytes > 0 && elements > 0 && elements < 1<<40 {
		g.Weights[typeName(kind)] += elements * bytes
	}
	return err
}

const (
	maxName  = 64 << 10
	maxPorts = 1 << 10
)

// addPort reads a ValueInfoProto.
func addPort(ports *[]Port, m *message) error {
	if len(*ports) >= maxPorts {
		return fmt.Errorf("more than %d inputs or outputs", maxPorts)
	}
	var p Port
	err := m.fields(func(number protowire.Number, _ uint64, submessage *message) error {
		switch {
		case submessage == nil:
		case number == 1: // name
			name, err := submessage.bytes(maxName)
			p.Name = string(name)
			return err
		case number == 2: // type
			return submessage.fields(func(number protowire.Number, _ uint64, submessage *message) error {
				if number != 1 || submessage == nil { // tensor_type
					return nil
				}
				return submessage.fields(p.tensorType)
			})
		}
		return nil
	})
	*ports = append(*ports, p)
	return err
}

func (p *Port) tensorType(number protowire.Number, value uint64, submessage *message) error {
	switch {
	case number == 1 && submessage == nil: // elem_type
		p.Type = typeName(value)
	case number == 2 && submessage != nil: // shape
		return submessage.fields(func(number protowire.Number, _ uint64, submessage *message) error {
			if number != 1 || submessage == nil || len(p.Dimensions) > 16 { // dim
				return nil
			}
			p.Dimensions = append(p.Dimensions, 0)
			return submessage.fields(func(number protowire.Number, value uint64, submessage *message) error {
				if number == 1 && submessage == nil { // dim_value
					p.Dimensions[len(p.Dimensions)-1] = max(0, int64(value))
				}
				return nil
			})
		})
	}
	return nil
}

// message is a protocol buffer message of a known length, read as a stream.
type message struct {
	r         *bufio.Reader
	remaining int64
}

// fields calls yield with each field: a number has a value, a field with a length has inner. fields
// skips what yield does not read of inner.
func (m *message) fields(yield func(number protowire.Number, value uint64, submessage *message) error) error {
	for m.remaining > 0 {
		tag, err := m.varint()
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		if number < 1 {
			return errors.New("a field without a number")
		}
		var value uint64
		var submessage *message
		switch kind {
		case protowire.VarintType:
			value, err = m.varint()
		case protowire.Fixed64Type:
			err = m.skip(8)
		case protowire.Fixed32Type:
			err = m.skip(4)
		case protowire.BytesType:
			var length uint64
			if length, err = m.varint(); err == nil && length > uint64(m.remaining) {
				err = errors.New("a field is longer than its message")
			}
			submessage = &message{r: m.r, remaining: int64(length)}
			m.remaining -= submessage.remaining
		default:
			err = fmt.Errorf("unknown wire type %d", kind)
		}
		if err != nil {
			return err
		}
		if err := yield(number, value, submessage); err != nil {
			return err
		}
		if submessage != nil {
			if err := submessage.skip(submessage.remaining); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *message) varint() (uint64, error) {
	before := m.remaining
	v, err := binary.ReadUvarint(byteReader{m})
	if err == nil && m.remaining < 0 {
		err = errors.New("a field is longer than its message")
	}
	if errors.Is(err, io.EOF) && before > 0 {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

type byteReader struct{ m *message }

func (c byteReader) ReadByte() (byte, error) {
	c.m.remaining--
	return c.m.r.ReadByte()
}

func (m *message) skip(n int64) error {
	if n > m.remaining {
		return errors.New("a field is longer than its message")
	}
	m.remaining -= n
	_, err := io.CopyN(io.Discard, m.r, n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// bytes reads the rest of the message, at most limit bytes.
func (m *message) bytes(limit int64) ([]byte, error) {
	if m.remaining > limit {
		return nil, fmt.Errorf("a name or shape of %d bytes", m.remaining)
	}
	data := make([]byte, m.remaining)
	m.remaining = 0
	_, err := io.ReadFull(m.r, data)
	return data, err
}
