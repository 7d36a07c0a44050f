package httpapi

// This file looks at a JSON body while it arrives, before any of it is decoded: one that would cost more than its
// operation may take is read no further. The decoder judges its syntax, and huma its values.

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
	// maxErrors is how many errors a reply names. A body with more unknown properties and values of a wrong type
	// is read no further.
	maxErrors = 20
	// maxDepth is how deep a body nests: the API's own types take 8, metadata 16 more.
	maxDepth = 32
	// maxProperties is how many properties an object has whose schema sets no limit, maxKey the length of a name.
	maxProperties = 256
	maxKey        = 1024
	// maxFree is the length of an object that may hold anything, and of a string without a limit of its own.
	maxFree = 256 << 10
	// maxBlanks is how many bytes of white space come in a row.
	maxBlanks = 64 << 10
	// characterBytes is what one character takes in JSON at most: two escaped surrogates.
	characterBytes = 12
)

// limits are what the body of an operation may have.
type limits struct {
	bytes   int64
	values  int // of all kinds
	objects int // among them; even an empty one takes much memory
	// text lets a string without a limit of its own be as long as the body.
	text bool
}

// shape follows a body through its schema. Write fails at the first byte that is too much, with a huma.StatusError.
type shape struct {
	limits  limits
	schemas huma.Registry
	root    *huma.Schema // nil: anything

	stack   []level
	read    int64
	values  int
	objects int
	wrong   []error // the first unknown properties and values of a wrong type
	failed  error

	// Of a batch: where its documents stand, and what is around them. nil: it is none.
	spans  *[]byteRange
	around *skeleton

	token  token
	escape bool
	blanks int                        // in a row
	text   struct{ read, most int64 } // the string that is open; most 0: no limit
	key    []byte                     // the property name that is open
}

type token byte

const (
	tokenNone token = iota
	tokenLiteral
	tokenString
	tokenKey
)

// level is an object or list that is open.
type level struct {
	schema *huma.Schema // nil: anything
	object bool
	named  bool   // a property's value comes next, not a name
	key    string // of that property
	n      int    // properties or elements so far
	began  int64
	free   bool // its length is bounded
}

// Write implements io.Writer.
func (s *shape) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && s.failed == nil; i++ {
		s.read++
		if s.take(p[i]); s.around != nil {
			s.keep(p[i])
		}
	}
	if s.failed != nil {
		return 0, s.failed
	}
	return len(p), nil
}

// keep takes note of the documents of a batch. It looks after a byte was taken.
func (s *shape) keep(c byte) {
	n, spans := len(s.stack), *s.spans
	inside := n >= 2 && s.stack[0].object && !s.stack[1].object && strings.EqualFold(s.stack[0].key, "documents")
	text := s.token == tokenString || s.token == tokenKey
	opened := len(spans) > 0 && spans[len(spans)-1].end == 0
	switch {
	case opened && n == 2 && c == '}' && !text:
		spans[len(spans)-1].end = s.read
		return
	case opened:
		if s.read-spans[len(spans)-1].begin > maxInBatch {
			s.failAt(fmt.Sprintf("body.documents[%d]", len(spans)-1),
				"has more than %s; send it alone, by PUT /v1/collections/{collection}/content", schema.FormatBytes(maxInBatch))
		}
		return
	case inside && n == 3 && s.stack[2].object && c == '{' && !text:
		*s.spans = append(spans, byteRange{begin: s.read - 1})
		s.around.WriteByte('0')
		return
	case s.blanks > 1:
		return
	}
	if s.around.WriteByte(c); s.around.Len() > maxAround {
		s.failAt("body", "has more than %d bytes beside its documents", maxAround)
	}
}

func (s *shape) take(c byte) {
	switch {
	case s.token == tokenString || s.token == tokenKey:
		s.takeText(c)
		return
	case c == '"':
		s.token, s.blanks = tokenNone, 0
		if top := s.top(); top != nil && top.object && !top.named {
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
			top.named = false
		}
	case ':':
		s.token = tokenNone
	default:
		if s.token == tokenNone {
			s.token = tokenLiteral
			s.value(kindOf(c))
		}
	}
	if top := s.top(); top != nil && top.free && s.read-top.began > maxFree {
		s.fail("has more than %d bytes", maxFree)
	}
}

func (s *shape) takeText(c byte) {
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
	if s.text.read++; s.text.most > 0 && s.text.read > s.text.most {
		s.fail("is too long")
	}
	if top := s.top(); top != nil && top.free && s.read-top.began > maxFree {
		s.fail("has more than %d bytes", maxFree)
	}
}

func (s *shape) top() *level {
	if len(s.stack) == 0 {
		return nil
	}
	return &s.stack[len(s.stack)-1]
}

func (s *shape) beginString() {
	schema := s.value(huma.TypeString)
	s.token, s.text.read, s.text.most = tokenString, 0, maxFree
	switch {
	case schema != nil && schema.MaxLength != nil:
		s.text.most = int64(*schema.MaxLength) * characterBytes
	case s.limits.text:
		s.text.most = 0
	}
}

// property takes note of a name that ended.
func (s *shape) property() {
	top := s.top()
	top.named, top.key = true, string(s.key)
	if strings.ContainsRune(top.key, '\\') {
		var plain string
		if json.Unmarshal([]byte(`"`+top.key+`"`), &plain) == nil {
			top.key = plain
		}
	}
	top.n++
	most := maxProperties
	if top.schema != nil {
		switch {
		case top.schema.MaxProperties != nil:
			most = *top.schema.MaxProperties
		case closed(top.schema):
			most = len(top.schema.Properties) + maxErrors
		}
	}
	if top.n > most {
		top.named = false
		s.fail("has more than %d properties", most)
		return
	}
	if top.schema != nil && closed(top.schema) && propertyOf(top.schema, top.key) == nil {
		s.fault("unexpected property")
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

// value counts one that begins and returns its schema; nil: it may be anything.
func (s *shape) value(kind string) *huma.Schema {
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
		s.fault("expected " + schema.Type)
		return nil
	}
	return schema
}

// child is the schema of the value that begins in a container.
func (s *shape) child(top *level) *huma.Schema {
	if !top.object {
		top.n++
		if top.schema == nil {
			return nil
		}
		if most := top.schema.MaxItems; most != nil && top.n > *most {
			s.failAt(s.place(len(s.stack)-1), "has more than %d items", *most)
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
func (s *shape) open(object bool) {
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
	if above := s.top(); above != nil && above.free {
		l.free, l.began = true, above.began
	} else if schema == nil || object && anything(schema.AdditionalProperties) {
		l.free = true
	}
	s.stack = append(s.stack, l)
}

// anything tells whether additional properties are of any type.
func anything(additional any) bool {
	switch a := additional.(type) {
	case bool:
		return a
	case *huma.Schema:
		return a.Type == "" && a.Ref == ""
	}
	return false
}

// fault takes note of what huma will refuse; many of them end the reading.
func (s *shape) fault(message string) {
	s.wrong = append(s.wrong, &huma.ErrorDetail{Location: s.place(len(s.stack)), Message: message})
	if len(s.wrong) > maxErrors && s.failed == nil {
		s.failed = huma.NewError(http.StatusUnprocessableEntity, fmt.Sprintf(
			"validation failed: more than %d properties and values are unknown or of a wrong type; these are the first",
			maxErrors), s.wrong[:maxErrors]...)
	}
}

func (s *shape) fail(format string, args ...any) { s.failAt(s.place(len(s.stack)), format, args...) }

func (s *shape) failAt(place, format string, args ...any) {
	if s.failed == nil {
		s.failed = huma.NewError(http.StatusUnprocessableEntity, "validation failed",
			&huma.ErrorDetail{Location: place, Message: fmt.Sprintf(format, args...)})
	}
}

// place names what is being read, through so many levels.
func (s *shape) place(levels int) string {
	var b strings.Builder
	b.WriteString("body")
	for _, l := range s.stack[:levels] {
		switch {
		case !l.object && l.n > 0:
			b.WriteString("[" + strconv.Itoa(l.n-1) + "]")
		case l.object && l.named:
			b.WriteString("." + cut(l.key, 64))
		}
	}
	return b.String()
}

// kindOf is the type of a literal by its first byte; empty: it is none, as the decoder will say.
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
