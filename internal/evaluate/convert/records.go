package convert

// This file parses JSON, one record at a time.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-rag/sluice/schema"
)

// maxRecord bounds one record of a file, in bytes, because a record is kept in memory.
const maxRecord = 64 << 20

var errLong = fmt.Errorf("is longer than %s", schema.FormatBytes(maxRecord))

// values parses one JSON value after another.
type values struct {
	*json.Decoder
	left *rationed
}

// rationed fails if more than maxRecord bytes are read for one record.
type rationed struct {
	in   io.Reader
	left int
}

// Read implements io.Reader.
func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLong
	}
	n, err := r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func valuesOf(in io.Reader) *values {
	left := &rationed{in: in, left: maxRecord}
	return &values{json.NewDecoder(left), left}
}

// next parses one value.
func (v *values) next(into any) error {
	v.left.left = maxRecord
	return v.decodingError(v.Decode(into))
}

// decodingError explains an error of decoding, with its field.
func (v *values) decodingError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case err == nil, errors.Is(err, errLong):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends in the middle: is it whole?")
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON at byte %d: %w", syntax.Offset, err)
	}
	return wrongType(err)
}

// wrongType names the field of a value that has the wrong type.
func wrongType(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("is a %s", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: is a %s", wrong.Field, wrong.Value)
	}
	return err
}

// opens parses the bracket that begins an array or object.
func (v *values) opens(bracket json.Delim) error {
	v.left.left = maxRecord
	token, err := v.Token()
	if err != nil {
		return v.decodingError(err)
	}
	if token != bracket {
		return fmt.Errorf("%s is expected at byte %d", map[json.Delim]string{'[': "a list", '{': "an object"}[bracket], v.InputOffset())
	}
	return nil
}

// ends parses the bracket that ends an array or object.
func (v *values) ends() error {
	v.left.left = maxRecord
	_, err := v.Token()
	return v.decodingError(err)
}

// after returns an error if anything follows the last value.
func (v *values) after() error {
	v.left.left = maxRecord
	switch _, err := v.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return v.decodingError(err)
	}
	return fmt.Errorf("there is more at byte %d, after the end", v.InputOffset())
}

// each calls one with every element of the next list, numbered from 1.
func each[T any](v *values, what string, one func(n int, element *T) error) error {
	if err := v.opens('['); err != nil {
		return err
	}
	for n := 1; v.More(); n++ {
		var element T
		err := v.next(&element)
		if err == nil {
			err = one(n, &element)
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", what, n, err)
		}
	}
	return v.ends()
}

// position is the position of a record in its file.
type position struct {
	unit string // line, record
	n    int    // from 1
}

// String returns the position for messages.
func (p position) String() string { return fmt.Sprintf("%s %d", p.unit, p.n) }

// inList reads a file that is one list of records.
func inList[T any](record func(s *set, at position, r *T) error) readFunc {
	return stream(func(s *set, in *input) error {
		v := valuesOf(in)
		err := each(v, "record", func(n int, r *T) error { return record(s, position{"record", n}, r) })
		if err == nil {
			err = v.after()
		}
		return named(in.name, err)
	})
}

// inLines reads a file of one record per line.
func inLines[T any](record func(s *set, at position, r *T) error) readFunc {
	return stream(func(s *set, in *input) error {
		return eachLine(in, func(n int, line []byte) error {
			var r T
			if err := object(line, &r); err != nil {
				return err
			}
			return record(s, position{"line", n}, &r)
		})
	})
}

// named adds the name of a file to an error.
func named(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// eachLine calls one with every line that is not blank, numbered from 1.
func eachLine(in *input, one func(n int, line []byte) error) error {
	lines := lineReader{in: in.Reader}
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			err = one(lines.n, line)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", in.name, lines.n, err)
		}
	}
}

// object parses one JSON object.
func object(line []byte, into any) error {
	if err := json.Unmarshal(line, into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("is not JSON: %w", err)
		}
		return wrongType(err)
	}
	return nil
}

// missing returns the error for a field that is missing or blank.
func missing(field string) error { return fmt.Errorf("%s: is missing", field) }
