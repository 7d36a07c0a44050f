// Package receipt makes signed receipts of stored answers, and verifies them against the bytes of
// the cited files, without the server.
//
// A receipt has exactly one encoding: when it is read it is encoded again, and must be the same
// byte for byte. So changes of white space, order or spelling are detected, and the signature
// covers the bytes that are served.
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

// Format names the encoding of receipts and how they are verified.
const Format = "sluice-receipt-v1"

// MaxBytes bounds the size of a receipt.
const MaxBytes = 64 << 20

// Receipt says what was asked and answered, by what, and from which bytes. The members of all its
// objects are ordered by name, in the order in which they are encoded. It does not say when it was
// issued, so an answer has one receipt for each key and version of the software.
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

// AnsweringPack is the model pack with which the answer was made; its members are empty if it was
// not recorded.
type AnsweringPack struct {
	Name    string `json:"name"`
	SHA256  string `json:"sha256"` // hex, of its manifest.yaml, which has the hashes of all its files
	Version string `json:"version"`
}

// AnsweringPlan is the retrieval plan that ran.
type AnsweringPlan struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // hex, of its YAML; empty if it was not recorded
}

// CitedQuote is a quote and its location.
type CitedQuote struct {
	Boxes      []Box     `json:"boxes"`
	Document   string    `json:"document"` // external id
	DocumentID uuid.UUID `json:"document_id"`
	End        int       `json:"end"` // the quote is bytes [Start, End) of the section
	File       CitedFile `json:"file"`
	Page       int       `json:"page"` // from 1; 0: the format has no pages
	Quote      string    `json:"quote"`
	Section    int       `json:"section"` // ordinal in the version's text, from 0
	Start      int       `json:"start"`
	Version    uuid.UUID `json:"version"`
}

// CitedFile identifies the bytes of a version, and says how they are parsed.
type CitedFile struct {
	Bytes     int64  `json:"bytes"`
	Language  string `json:"language"` // BCP 47, for text recognition of scanned pages
	MediaType string `json:"media_type"`
	Name      string `json:"name"`
	SHA256    string `json:"sha256"` // hex
}

// Box is a schema.Box in whole units of 1/Unit point.
type Box struct {
	Bottom int `json:"bottom"`
	Left   int `json:"left"`
	Page   int `json:"page"`
	Right  int `json:"right"`
	Top    int `json:"top"`
}

// Unit is the number of Box units per point, the precision in which layouts are stored.
const Unit = 20

// Boxes converts boxes to whole units.
func Boxes(in []schema.Box) []Box {
	out := make([]Box, len(in))
	for i, b := range in {
		out[i] = Box{Page: b.Page, Bottom: units(b.Bottom), Left: units(b.Left), Right: units(b.Right), Top: units(b.Top)}
	}
	return out
}

func units(points float64) int { return int(math.Round(points * Unit)) }

// Time formats a time for receipts.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// signedReceipt is a receipt as it is served: the signature is over the bytes of the member
// receipt.
type signedReceipt struct {
	Receipt   Receipt `json:"receipt"`
	Signature string  `json:"signature"` // base64
}

// encode returns the only encoding of v.
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

// decode decodes a receipt and its signature, and checks that this is their only encoding.
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

// validate returns an error for the first member with an invalid value.
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
