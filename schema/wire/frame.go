package wire

// This file is the binary form of messages between the model server and its callers. Vectors and
// texts are most of such a message. As JSON, they take more bytes, and most of the time of reading
// it.
//
// A frame is frameMark, the length of a JSON object, the object, and parts in the order in which
// the type's codeParts writes them. The object is the message as JSON without the parts, so that
// fields can be added to it as to any message. Lengths and counts are unsigned varints; numbers are
// little-endian float32; texts are UTF-8, with all lengths of a part first.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-rag/sluice/schema"
)

// HeaderFrames is the NATS header of a request whose sender can read frames, and of a reply that is
// a frame. Its value is FrameVersion. Older programs read only JSON and get no frames.
const HeaderFrames = "Sluice-Frames"

// FrameVersion is the version of frames that this build reads and writes.
const FrameVersion = "1"

// frameMark begins a frame. No JSON begins with a zero byte.
const frameMark = "\x00SF" + FrameVersion

// framer is a message with parts: codeParts writes its parts and clears their fields, or reads
// them.
type framer interface{ codeParts(*partCodec) }

// EncodeFrame writes a message as a frame, or as JSON where it has no parts.
func EncodeFrame(m any) ([]byte, error) {
	value := reflect.ValueOf(m)
	copied := reflect.New(value.Type()) // a copy, because codeParts clears fields
	copied.Elem().Set(value)
	message, ok := copied.Interface().(framer)
	if !ok {
		return Encode(m)
	}
	var p partCodec
	message.codeParts(&p)
	head, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	out := make([]byte, 0, len(frameMark)+binary.MaxVarintLen32+len(head)+len(p.data))
	out = append(out, frameMark...)
	out = binary.AppendUvarint(out, uint64(len(head)))
	return append(append(out, head...), p.data...), nil
}

// Read reads a frame or JSON message into m, whatever its version.
func Read(data []byte, m any) error {
	head, rest, err := splitFrame(data)
	if err != nil {
		return fmt.Errorf("decode %T: %w", m, errors.Join(schema.ErrInvalid, err))
	}
	if err := json.Unmarshal(head, m); err != nil {
		return fmt.Errorf("decode %T: %w", m, errors.Join(schema.ErrInvalid, err))
	}
	if !IsFrame(data) {
		return nil
	}
	message, ok := m.(framer)
	if !ok {
		return fmt.Errorf("decode %T: a frame where JSON is expected: %w", m, schema.ErrInvalid)
	}
	p := partCodec{data: rest, decoding: true}
	message.codeParts(&p)
	if p.err == nil && len(p.data) > 0 {
		p.err = fmt.Errorf("%d bytes follow the last part", len(p.data))
	}
	if p.err != nil {
		return fmt.Errorf("decode %T: part %d of the frame: %w", m, p.index, errors.Join(schema.ErrInvalid, p.err))
	}
	return nil
}

// IsFrame reports whether a message is a frame.
func IsFrame(data []byte) bool {
	return len(data) >= len(frameMark) && string(data[:len(frameMark)]) == frameMark
}

// HeadOf returns the JSON of a message: for a frame, the object without the parts. It is empty if a
// frame is cut off.
func HeadOf(data []byte) []byte {
	head, _, err := splitFrame(data)
	if err != nil {
		return nil
	}
	return head
}

// splitFrame splits a frame into its object and its parts. A JSON message is all head.
func splitFrame(data []byte) (head, rest []byte, err error) {
	if !IsFrame(data) {
		return data, nil, nil
	}
	data = data[len(frameMark):]
	n, width := binary.Uvarint(data)
	if width <= 0 || n > uint64(len(data)-width) {
		return nil, nil, errors.New("the frame ends in its head")
	}
	data = data[width:]
	return data[:n], data[n:], nil
}
