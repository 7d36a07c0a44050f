package httpapi

// Limits of JSON bodies. A body is checked while it arrives, before it is decoded. Reading ends
// when it would take more memory than its operation allows. The decoder checks the syntax, and huma
// the values.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// maxErrors is the most errors in a reply. Reading ends when a body has more unknown properties
	// and values of a wrong type.
	maxErrors = 20
	// maxDepth is how deep a body may be nested: the API's types need 8, metadata 16 more.
	maxDepth = 32
	// maxProperties limits the properties of an object whose schema has no limit, maxKey the length
	// of their names.
	maxProperties = 256
	maxKey        = 1024
	// maxFree limits the length of an object of any type, and of a string whose schema has no
	// limit.
	maxFree = 256 << 10
	// maxBlanks is the most bytes of white space in a row.
	maxBlanks = 64 << 10
	// characterBytes is the most bytes of one character in JSON: two escaped surrogates.
	characterBytes = 12
)

// limits are the limits of an operation's body.
type limits struct {
	bytes   int64
	values  int // of all types
	objects int // among the values; even an empty one takes much memory
	// text lets a string whose schema has no limit be as long as the body.
	text bool
}

// bodyChecker checks a body against its schema and limits. Write fails at the first byte beyond a
// limit, with a huma.StatusError.
type bodyChecker struct {
	limits  limits
	schemas huma.Registry
	root    *huma.Schema // nil: anything

	stack   []level
	read    int64
	values  int
	objects int
	invalid []error // unknown properties and values of a wrong type, up to maxErrors
	failed  error

	// For a batch: the byte ranges of its documents, and the rest of the body. nil: it is no batch.
	spans *[]byteRange
	rest  *skeleton

	token  token
	escape bool
	blanks int                         // in a row
	text   struct{ read, limit int64 } // the current string; most 0: no limit
	key    []byte                      // the current property name
}

type token byte

const (
	tokenNone token = iota
	tokenLiteral
	tokenString
	tokenKey
)

// level is an object or list that has not ended.
type level struct {
	schema  *huma.Schema // nil: anything
	object  bool
	inValue bool   // the value of a property comes next
	key     string // its name
	n       int    // properties or elements so far
	began   int64
	untyped bool // it may be of any type, so that only its length is limited
}

// Write implements io.Writer.
func (s *bodyChecker) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && s.failed == nil; {
		if s.token == tokenString && !s.escape {
			if n := s.skipText(p[i:]); n > 0 {
				i += n
				continue
			}
		}
		s.take(p[i])
		i++
	}
	if s.failed != nil {
		return 0, s.failed
	}
	return len(p), nil
}

// take checks the next byte.
func (s *bodyChecker) take(c byte) {
	s.read++
	if s.consume(c); s.rest != nil {
		s.trackDocuments(c)
	}
}

// skipText counts the bytes of a string in front of a quote, an escape or the first byte beyond a
// limit, which are left to take. Most bytes of a body are such.
func (s *bodyChecker) skipText(p []byte) (n int) {
	room := int64(len(p))
	if s.text.limit > 0 {
		room = min(room, s.text.limit-s.text.read)
	}
	if top := s.top(); top != nil && top.untyped {
		room = min(room, maxFree-(s.read-top.began))
	}
	if s.rest != nil {
		span := s.openSpan()
		if span == nil {
			return 0 // the rest of the body is kept
		}
		room = min(room, maxInBatch-(s.read-span.begin))
	}
	for int64(n) < room && p[n] != '"' && p[n] != '\\' {
		n++
	}
	s.read += int64(n)
	s.text.read += int64(n)
	return n
}

// openSpan returns the document of a batch that has not ended, or nil.
func (s *bodyChecker) openSpan() *byteRange {
	if spans := *s.spans; len(spans) > 0 && spans[len(spans)-1].end == 0 {
		return &spans[len(spans)-1]
	}
	return nil
}

// trackDocuments records the byte ranges of a batch's documents. It is called after consume, with
// the same byte.
func (s *bodyChecker) trackDocuments(c byte) {
	n, spans := len(s.stack), *s.spans
	inside := n >= 2 && s.stack[0].object && !s.stack[1].object && strings.EqualFold(s.stack[0].key, "documents")
	text := s.token == tokenString || s.token == tokenKey
	opened := s.openSpan()
	switch {
	case opened != nil && n == 2 && c == '}' && !text:
		opened.end = s.read
		return
	case opened != nil:
		if s.read-opened.begin > maxInBatch {
			s.failAt(fmt.Sprintf("body.documents[%d]", len(spans)-1),
				"has more than %s; send it alone, by PUT /v1/collections/{collection}/content", schema.FormatBytes(maxInBatch))
		}
		return
	case inside && n == 3 && s.stack[2].object && c == '{' && !text:
		*s.spans = append(spans, byteRange{begin: s.read - 1})
		s.rest.WriteByte('0')
		return
	case s.blanks > 1:
		return
	}
	if s.rest.WriteByte(c); s.rest.Len() > maxAround {
		s.failAt("body", "has more than %d bytes outside its documents", maxAround)
	}
}

func (s *bodyChecker) consume(c byte) {
	switch {
	case s.token == tokenString || s.token == tokenKey:
		s.takeText(c)
		return
	case c == '"':
		s.token, s.blanks = tokenNone, 0
		if top := s.top(); top != nil && top.object && !top.inValue {
			s.token, s.key = tokenKey, s.key[:0]
			return
		}
		s.beginString()
		return
	}
	if blank := c == ' ' || c == '\t' || c == '\n' || c == '\r'; blank {
		s.token = tokenNone
		if s.blanks++; s.blanks > maxBlanks {
			s.fail("has more than %d bytes of white space in a row", maxBlanks)
		}
		return
	}
	s.blanks = 0
	switch c {
	case '{', '[':
		s.token = tokenNone
		s.open(c == '{')
	case '}', ']':
		s.token = tokenNone
		if len(s.stack) > 0 {
			s.stack = s.stack[:len(s.stack)-1]
		}
	case ',':
		s.token = tokenNone
		if top := s.top(); top != nil {
			top.inValue = false
		}
	case ':':
		s.token = tokenNone
	default:
		if s.token == tokenNone {
			s.token = tokenLiteral
			s.value(kindOf(c))
		}
	}
	if top := s.top(); top != nil && top.untyped && s.read-top.began > maxFree {
		s.fail("has more than %d bytes", maxFree)
	}
}

func (s *bodyChecker) takeText(c byte) {
	if !s.escape && c == '"' {
		if s.token == tokenKey {
			s.property()
		}
		s.token = tokenNone
		return
	}
	s.escape = !s.escape && c == '\\'
	if s.token == tokenKey {
		if s.key = append(s.key, c); len(s.key) > maxKey {
			s.fail("has a property whose name is longer than %d bytes", maxKey)
		}
		return
	}
	if s.text.read++; s.text.limit > 0 && s.text.read > s.text.limit {
		s.fail("is too long")
	}
	if top := s.top(); top != nil && top.untyped && s.read-top.began > maxFree {
		s.fail("has more than %d bytes", maxFree)
	}
}

func (s *bodyChecker) top() *level {
	if len(s.stack) == 0 {
		return nil
	}
	return &s.stack[len(s.stack)-1]
}

func (s *bodyChecker) beginString() {
	schema := s.value(huma.TypeString)
	s.token, s.text.read, s.text.limit = tokenString, 0, maxFree
	switch {
	case schema != nil && schema.MaxLength != nil:
		s.text.limit = int64(*schema.MaxLength) * characterBytes
	case s.limits.text:
		s.text.limit = 0
	}
}

// property is called at the end of a property name.
func (s *bodyChecker) property() {
	top := s.top()
	top.inValue, top.key = true, string(s.key)
	if strings.ContainsRune(top.key, '\\') {
		var plain string
		if json.Unmarshal([]byte(`"`+top.key+`"`), &plain) == nil {
			top.key = plain
		}
	}
	top.n++
	limit := maxProperties
	if top.schema != nil {
		switch {
		case top.schema.MaxProperties != nil:
			limit = *top.schema.MaxProperties
		case closed(top.schema):
			limit = len(top.schema.Properties) + maxErrors
		}
	}
	if top.n > limit {
		top.inValue = false
		s.fail("has more than %d properties", limit)
		return
	}
	if top.schema != nil && closed(top.schema) && propertyOf(top.schema, top.key) == nil {
		s.addError("unexpected property")
	}
}

func closed(o *huma.Schema) bool {
	more, ok := o.AdditionalProperties.(bool)
	return ok && !more
}

// propertyOf finds a property as the decoder does, whatever the case of its name.
func propertyOf(o *huma.Schema, name string) *huma.Schema {
	if p := o.Properties[name]; p != nil {
		return p
	}
	for known, p := range o.Properties {
		if strings.EqualFold(known, name) {
			return p
		}
	}
	return nil
}

// value is called at the beginning of a value. It returns the schema; nil: any type.
func (s *bodyChecker) value(kind string) *huma.Schema {
	if s.values++; s.values > s.limits.values {
		s.fail("the body has more than %d values", s.limits.values)
		return nil
	}
	schema := s.root
	if top := s.top(); top != nil {
		schema = s.child(top)
	}
	for schema != nil && schema.Ref != "" {
		schema = s.schemas.SchemaFromRef(schema.Ref)
	}
	if schema == nil || schema.Type == "" {
		return nil
	}
	number := kind == "number" && schema.Type == huma.TypeInteger
	if kind != "" && kind != "null" && kind != schema.Type && !number {
		s.addError("expected " + schema.Type)
		return nil
	}
	return schema
}

// child returns the schema of a value in an object or list.
func (s *bodyChecker) child(top *level) *huma.Schema {
	if !top.object {
		top.n++
		if top.schema == nil {
			return nil
		}
		if limit := top.schema.MaxItems; limit != nil && top.n > *limit {
			s.failAt(s.path(len(s.stack)-1), "has more than %d items", *limit)
		}
		return top.schema.Items
	}
	if top.schema == nil {
		return nil
	}
	if p := propertyOf(top.schema, top.key); p != nil {
		return p
	}
	more, _ := top.schema.AdditionalProperties.(*huma.Schema)
	return more
}

// open begins an object or a list.
func (s *bodyChecker) open(object bool) {
	kind := huma.TypeArray
	if object {
		kind = huma.TypeObject
	}
	schema := s.value(kind)
	if s.failed != nil {
		return
	}
	if object {
		if s.objects++; s.objects > s.limits.objects {
			s.fail("the body has more than %d objects", s.limits.objects)
			return
		}
	}
	if len(s.stack) == maxDepth {
		s.fail("is nested more than %d deep", maxDepth)
		return
	}
	l := level{schema: schema, object: object, began: s.read}
	if above := s.top(); above != nil && above.untyped {
		l.untyped, l.began = true, above.began
	} else if schema == nil || object && anyType(schema.AdditionalProperties) {
		l.untyped = true
	}
	s.stack = append(s.stack, l)
}

// anyType reports whether additional properties may be of any type.
func anyType(additional any) bool {
	switch a := additional.(type) {
	case bool:
		return a
	case *huma.Schema:
		return a.Type == "" && a.Ref == ""
	}
	return false
}

// addError adds an error that huma would report. Too many end the check.
func (s *bodyChecker) addError(message string) {
	s.invalid = append(s.invalid, &huma.ErrorDetail{Location: s.path(len(s.stack)), Message: message})
	if len(s.invalid) > maxErrors && s.failed == nil {
		s.failed = huma.NewError(http.StatusUnprocessableEntity, fmt.Sprintf(
			"validation failed: more than %d properties and values are unknown or of a wrong type; these are the first",
			maxErrors), s.invalid[:maxErrors]...)
	}
}

func (s *bodyChecker) fail(format string, args ...any) {
	s.failAt(s.path(len(s.stack)), format, args...)
}

func (s *bodyChecker) failAt(place, format string, args ...any) {
	if s.failed == nil {
		s.failed = huma.NewError(http.StatusUnprocessableEntity, "validation failed",
			&huma.ErrorDetail{Location: place, Message: fmt.Sprintf(format, args...)})
	}
}

// path returns the path of the current value, down to a level.
func (s *bodyChecker) path(levels int) string {
	var b strings.Builder
	b.WriteString("body")
	for _, l := range s.stack[:levels] {
		switch {
		case !l.object && l.n > 0:
			b.WriteString("[" + strconv.Itoa(l.n-1) + "]")
		case l.object && l.inValue:
			b.WriteString("." + cut(l.key, 64))
		}
	}
	return b.String()
}

// kindOf returns the type of a literal by its first byte; empty: it is invalid, which the decoder
// reports.
func kindOf(c byte) string {
	switch {
	case c == 't' || c == 'f':
		return huma.TypeBoolean
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return huma.TypeNumber
	}
	return ""
}
