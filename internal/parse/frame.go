package parse

// The protocol on the pipes between a pool and its children. A request is a JSON head and the
// file's bytes; its settings are left out while they do not change. When the child has read a
// request it answers with a frame: its first such frame describes its confinement, later ones are
// empty. When it is done it answers with a reply in JSON. In between it may ask for the text of
// images.

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// maxFrame is the largest length of a frame that a reader accepts, in bytes.
const maxFrame = 4 << 30

// smallFrame is the largest length of frames that are sent in one write, in bytes.
const smallFrame = 32 << 10

// request is one file to parse.
type request struct {
	Name      string `json:"name"`
	MediaHint string `json:"media_hint,omitempty"`
	// Settings is nil in a child's later requests if they are those of the one before.
	Settings *settings `json:"settings,omitempty"`

	data []byte
}

// settings are what applies to a file.
type settings struct {
	Limits Limits        `json:"limits"`
	OCR    ocrOptions    `json:"ocr"`
	Office officeOptions `json:"office"`
}

func (s settings) equal(t settings) bool {
	return s.Limits == t.Limits && s.OCR == t.OCR && s.Office.Reason == t.Office.Reason && slices.Equal(s.Office.Parts, t.Office.Parts)
}

// reply is the outcome of a request: Parsed, or a Reason (the file's fault), or Failure (the
// parser's). Replies with Recognise or Convert come before the outcome. After Recognise follows a
// frame of the image's pixels, and the pool answers with a frame of what was recognised. After
// Convert follows the file to convert, and the pool answers likewise.
type reply struct {
	Recognise *recogniseRequest `json:"recognise,omitempty"`
	Convert   *convertRequest   `json:"convert,omitempty"`
	Parsed    schema.Parsed     `json:"parsed"`
	Reason    *schema.Reason    `json:"reason,omitempty"`
	Cause     string            `json:"cause,omitempty"`
	Failure   string            `json:"failure,omitempty"`
}

func (r reply) result() (schema.Parsed, error) {
	switch {
	case r.Reason != nil:
		e := &Error{Reason: *r.Reason}
		if r.Cause != "" {
			e.cause = errors.New(r.Cause)
		}
		return schema.Parsed{}, e
	case r.Failure != "":
		return schema.Parsed{}, errors.New(r.Failure)
	}
	return r.Parsed, nil
}

func replyOf(parsed schema.Parsed, err error) reply {
	var e *Error
	switch {
	case err == nil:
		return reply{Parsed: parsed}
	case errors.As(err, &e):
		r := reply{Reason: &e.Reason}
		if e.cause != nil {
			r.Cause = e.cause.Error()
		}
		return r
	}
	return reply{Failure: err.Error()}
}

func writeRequest(w io.Writer, r request) error {
	head, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	if len(head)+len(r.data) <= smallFrame {
		return write(w, appendFrame(appendFrame(nil, head), r.data))
	}
	if err := writeFrame(w, head); err != nil {
		return err
	}
	return writeFrame(w, r.data)
}

// readRequest reads the next request. It returns io.EOF at the end of the stream.
func readRequest(r *bufio.Reader) (request, error) {
	var out request
	head, err := readFrame(r)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(head, &out); err != nil {
		return out, fmt.Errorf("decoding a request: %w", err)
	}
	if out.data, err = readFrame(r); err != nil {
		return out, noEOF(err)
	}
	return out, nil
}

func writeReply(w io.Writer, r reply) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding a reply: %w", err)
	}
	return writeFrame(w, body)
}

func readReply(r *bufio.Reader) (reply, error) {
	var out reply
	body, err := readFrame(r)
	if err != nil {
		return out, noEOF(err)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("decoding a reply: %w", err)
	}
	return out, nil
}

// appendFrame appends a frame to out: its length in 8 bytes, and its body.
func appendFrame(out, body []byte) []byte {
	out = slices.Grow(out, 8+len(body))
	return append(binary.BigEndian.AppendUint64(out, uint64(len(body))), body...)
}

func writeFrame(w io.Writer, body []byte) error {
	if len(body) <= smallFrame {
		return write(w, appendFrame(nil, body))
	}
	if err := write(w, binary.BigEndian.AppendUint64(nil, uint64(len(body)))); err != nil {
		return err
	}
	return write(w, body)
}

func write(w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	return nil
}

func readFrame(r *bufio.Reader) ([]byte, error) { return readFrameOf(r, maxFrame) }

// readFrameOf reads a frame of up to most bytes.
func readFrameOf(r *bufio.Reader, most uint64) ([]byte, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes is too large", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, noEOF(err)
	}
	return body, nil
}

// noEOF replaces io.EOF, which here means an end inside a message, by io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
