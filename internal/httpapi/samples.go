package httpapi

// This file shows how the most used operations are called with curl, Go, TypeScript and Python. The
// samples are in the OpenAPI document under x-codeSamples, which the page at /docs/api and other
// viewers show.

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"github.com/danielgtaylor/huma/v2"
)

const samplesKey = "x-codeSamples"

// codeSample is a sample in one language, in the form that OpenAPI viewers expect.
type codeSample struct {
	Lang   string `json:"lang"`
	Label  string `json:"label"`
	Source string `json:"source"`
}

// exampleCall is the request of a sample.
type exampleCall struct {
	ids   map[string]string // path parameters
	query url.Values
	body  any    // as JSON; nil: none
	file  string // name of the file that is the body; empty: none
}

// The id and the collection in samples.
const (
	exampleID         = "01972f6e-3c1a-7b52-9d0e-5a4f8c2b7e61"
	exampleCollection = "handbook"
)

type object = map[string]any

// exampleCalls are the requests of the operations that have samples, by operation id.
var exampleCalls = map[string]exampleCall{
	"create-collection": {body: object{"name": exampleCollection, "description": "Rules for everybody who works here"}},
	"list-collections":  {query: url.Values{"limit": {"20"}}},
	"upload-documents": {ids: map[string]string{"collection": exampleCollection}, body: object{"documents": []object{
		{"external_id": "leave.md", "title": "Leave", "text": "Up to five days of unused leave are carried over."}}}},
	"upload-content": {ids: map[string]string{"collection": exampleCollection}, query: url.Values{"external_id": {"leave.pdf"}},
		file: "leave.pdf"},
	"list-documents": {ids: map[string]string{"collection": exampleCollection}, query: url.Values{"state": {"failed"}, "limit": {"20"}}},
	"get-document":   {ids: map[string]string{"document": exampleID}},
	"search":         {body: object{"collection": exampleCollection, "query": "unused leave", "k": 5}},
	"ask":            {body: object{"collection": exampleCollection, "query": "How many days of unused leave can I carry over?"}},
	"create-chat-completion": {body: object{"model": exampleCollection, "messages": []object{
		{"role": "user", "content": "How many days of unused leave can I carry over?"}}}},
	"start-job":      {body: object{"collection": exampleCollection, "query": "What changed in the rules for leave?"}},
	"get-job":        {ids: map[string]string{"job": exampleID}},
	"get-question":   {ids: map[string]string{"question": exampleID}},
	"rate-answer":    {ids: map[string]string{"question": exampleID}, body: object{"rating": "up"}},
	"list-plans":     {},
	"create-key":     {body: object{"name": "crawler", "scopes": []string{"ingest"}}},
	"create-webhook": {body: object{"url": "https://example.org/sluice", "kinds": []string{"version.ready", "version.failed"}}},
}

//go:embed samples.tmpl
var samplesText string

var sampleTemplates = template.Must(template.New("samples").Parse(samplesText))

// sampleLanguages are the languages in display order. Each has a template of its name.
var sampleLanguages = []struct{ lang, label string }{{"bash", "curl"}, {"go", "Go"}, {"typescript", "TypeScript"}, {"python", "Python"}}

// addSamples adds the samples to the description of the API. It is called after all routes are
// registered.
func addSamples(description *huma.OpenAPI) {
	for path, item := range description.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			call, ok := exampleCalls[op.OperationID]
			if !ok {
				continue
			}
			if op.Extensions == nil {
				op.Extensions = map[string]any{}
			}
			op.Extensions[samplesKey] = call.samples(op.Method, path)
		}
	}
}

// samples writes the call in every language.
func (c exampleCall) samples(method, path string) []codeSample {
	for name, id := range c.ids {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(id))
	}
	if len(c.query) > 0 {
		path += "?" + c.query.Encode()
	}
	in := struct{ Method, Path, Body, File string }{Method: method, Path: path, File: c.file}
	if c.body != nil {
		body, err := json.MarshalIndent(c.body, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("httpapi: the sample of %s %s: %v", method, path, err))
		}
		in.Body = string(body)
	}
	var out []codeSample
	for _, l := range sampleLanguages {
		var source strings.Builder
		if err := sampleTemplates.ExecuteTemplate(&source, l.lang, in); err != nil {
			panic(fmt.Sprintf("httpapi: the sample of %s %s in %s: %v", method, path, l.label, err))
		}
		out = append(out, codeSample{Lang: l.lang, Label: l.label, Source: strings.TrimSpace(source.String()) + "\n"})
	}
	return out
}
