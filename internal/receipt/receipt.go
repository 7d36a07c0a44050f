// Package receipt makes signed receipts of stored answers, and proves them again from the bytes of
// the cited files, without the server.
//
// A receipt has one form, byte by byte: what is read is encoded again and must be the same. So no
// change of white space, order or spelling passes, and the signature covers the bytes that are
// served.
package receipt

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Format names the form of receipts and how they are proved.
const Format = "sluice-receipt-v1"

// MaxBytes is the most that a receipt has.
const MaxBytes = 64 << 20

// Receipt says what was asked and answered, by what, and from which bytes. Its members, and those
// of what is in it, are in the order of their names, which is the order in which they are encoded.
// It does not say when it was issued: an answer has one receipt for each key and version of the
// software.
type Receipt struct {
	Answer     string        `json:"answer"`
	AnsweredAt string        `json:"answered_at"` // RFC 3339, UTC, in whole seconds
	Citations  []CitedQuote  `json:"citations"`
	Format     string        `json:"format"`
	Key        string        `json:"key"` // PublicKey.ID of the key that signs
	Pack       AnsweringPack `json:"pack"`
	Plan       AnsweringPlan `json:"plan"`
	Question   string        `json:"question"`
	QuestionID uuid.UUID     `json:"question_id"`
	Software   string        `json:"software"` // version of the server that issued it
	Supported  bool          `json:"supported"`
	Uncited    bool          `json:"uncited"` // from the model's own knowledge
}

// AnsweringPack is the model pack that served when the answer was made; its members are empty where
// that was not kept.
type AnsweringPack struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"` // hex, of its manifest.yaml, which has those of all its files
	Version string `json:"version"`
}

// AnsweringPlan is the retrieval plan that ran.
type AnsweringPlan struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // hex, of its YAML; empty where that was not kept
}

// CitedQuote is a quote and where it stands.
type CitedQuote struct {
	Boxes      []Box     `json:"boxes"`
	Document   string    `json:"document"` // external id
	DocumentID uuid.UUID `json:"document_id"`
	End        int       `json:"end"` // the quote is bytes [Start, End) of the section
	File       CitedFile `json:"file"`
	Page       int       `json:"page"` // from 1; 0: the format has none
	Quote      string    `json:"quote"`
	Section    int       `json:"section"` // ordinal in the version's text, from 0
	Start      int       `json:"start"`
	Version    uuid.UUID `json:"version"`
}

// CitedFile is the bytes of a version, and what they are parsed by.
type CitedFile struct {
	Bytes     int64  `json:"bytes"`
	Language  string `json:"language"` // BCP 47, by which scanned pages are read
	MediaType string `json:"media_type"`
	Name      string `json:"name"`
	SHA256    string `json:"sha256"` // hex
}

// Box is a schema.Box in whole units, of which Unit are a point.
type Box struct {
	Bottom int `json:"bottom"`
	Left   int `json:"left"`
	Page   int `json:"page"`
	Right  int `json:"right"`
	Top    int `json:"top"`
}

// Unit is how many units of a Box a point has, which is the precision in which layouts are stored.
const Unit = 20

// Boxes returns boxes in whole units.
func Boxes(in []schema.Box) []Box {
	out := make([]Box, len(in))
	for i, b := range in {
		out[i] = Box{Page: b.Page, Bottom: units(b.Bottom), Left: units(b.Left), Right: units(b.Right), Top: units(b.Top)}
	}
	return out
}

func units(points float64) int { return int(math.Round(points * Unit)) }

// Time returns a time as receipts have it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// signedReceipt is a receipt as it is served: its signature is of the bytes of the member receipt.
type signedReceipt struct {
	Receipt   Receipt `json:"receipt"`
	Signature string  `json:"signature"` // base64
}

// encode is the one form of v.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a receipt: %w", err)
	}
	return b.Bytes()[:b.Len()-1], nil // without the line's end
}

var errForm = errors.New("it is not in the form of a receipt, which allows no other spelling: it was changed, or is none")

// decode reads a receipt and its signature in the one form that they have.
func decode(data []byte) (signedReceipt, error) {
	if len(data) > MaxBytes {
		return signedReceipt{}, fmt.Errorf("it has %d bytes, and a receipt at most %d", len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return signedReceipt{}, fmt.Errorf("it is not UTF-8: %w", errForm)
	}
	var d signedReceipt
	reader := json.NewDecoder(bytes.NewReader(data))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&d); err != nil {
		if errors.Is(err, io.EOF) {
			return signedReceipt{}, errors.New("it is empty")
		}
		return signedReceipt{}, fmt.Errorf("%w (%w)", errForm, err)
	}
	again, err := encode(d)
	if err != nil {
		return signedReceipt{}, err
	}
	if !bytes.Equal(append(again, '\n'), data) {
		return signedReceipt{}, errForm
	}
	return d, d.Receipt.validate()
}

// validate reports the first member that no receipt has so.
func (r Receipt) validate() error {
	if r.Format != Format {
		return schema.Invalid("receipt.format", "is %.60q; this program knows %q alone", r.Format, Format)
	}
	if _, err := time.Parse(time.RFC3339, r.AnsweredAt); err != nil {
		return schema.Invalid("receipt.answered_at", "%.60q is no time", r.AnsweredAt)
	}
	if r.Citations == nil {
		return schema.Invalid("receipt.citations", "needs a list")
	}
	for i, c := range r.Citations {
		field := "receipt.citations[" + strconv.Itoa(i) + "]."
		switch {
		case c.Boxes == nil:
			return schema.Invalid(field+"boxes", "needs a list")
		case c.Section < 0:
			return schema.Invalid(field+"section", "%d is negative", c.Section)
		case c.Start < 0 || c.End <= c.Start || c.End-c.Start != len(c.Quote):
			return schema.Invalid(field+"end", "bytes %d to %d are no quote of %d bytes", c.Start, c.End, len(c.Quote))
		case c.File.Bytes < 0:
			return schema.Invalid(field+"file.bytes", "%d is negative", c.File.Bytes)
		}
		if sum, err := hex.DecodeString(c.File.SHA256); err != nil || len(sum) != 32 {
			return schema.Invalid(field+"file.sha256", "%.80q is no SHA-256 in hex", c.File.SHA256)
		}
	}
	return nil
}
