package corpus

// This file prepares versions before the transaction that writes them, so that nobody waits behind
// a lock for it.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/minhash"
	"github.com/sluice-rag/sluice/internal/text"
)

// preparation is a batch that is ready to be written to a collection, with terms in its language.
type preparation struct {
	language string
	analyzer *lexical.Analyzer
	space    int // of the vectors; 0: not known to be the collection's
	versions []preparedVersion
}

// preparedVersion is a version with its terms, and with its strings cleaned for Postgres. The text
// itself was cleaned before it was segmented: cleaning it here could move the passages' bounds.
type preparedVersion struct {
	*batch.Document
	title    string // that the parser found
	media    string
	warnings string       // as JSON
	headings []string     // paths of the sections, as array literals
	links    [][]string   // of the sections
	terms    [][][]string // of the passages, by section
	// signature is empty for a text too short to be compared.
	signature minhash.Signature
}

// prepare makes the terms of all passages in the recipe's language. If the recipe changes
// meanwhile, the write notices behind the lock.
func prepare(r batch.Recipe, docs []batch.Document) (preparation, error) {
	p := preparation{versions: make([]preparedVersion, len(docs))}
	for i := range docs {
		var err error
		if p.versions[i], err = cleanVersion(&docs[i]); err != nil {
			return preparation{}, err
		}
	}
	if v := docs[0].Vectors; r.Kept.Name == v.Space && r.Kept.Dimension == v.Dimension {
		p.space = r.KeptID
	}
	return p, p.analyse(r.Language)
}

func cleanVersion(d *batch.Document) (preparedVersion, error) {
	v := preparedVersion{Document: d, title: strings.TrimSpace(text.Clean(d.Text.Title)), media: text.Clean(d.Text.MediaType),
		signature: signatureOf(d.Text.Sections)}
	warnings, err := json.Marshal(cleanAll(d.Text.Warnings))
	if err != nil {
		return v, fmt.Errorf("encode warnings: %w", err)
	}
	v.warnings = string(warnings)
	for i, sec := range d.Text.Sections {
		for _, p := range sec.Passages {
			if err := checkBounds(d.Version, i, p.Start, p.End, sec.Text); err != nil {
				return v, err
			}
		}
		v.headings = append(v.headings, arrayLiteral(cleanAll(sec.HeadingPath)))
		v.links = append(v.links, cleanAll(sec.Links))
	}
	return v, nil
}

// cleanAll returns cleaned copies of the strings. The result is never nil.
func cleanAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text.Clean(s)
	}
	return out
}

func checkBounds(version uuid.UUID, section, start, end int, body string) error {
	if start < 0 || end > len(body) || start >= end {
		return fmt.Errorf("version %s: section %d has %d bytes and a passage [%d, %d)", version, section, len(body), start, end)
	}
	return nil
}

// arrayLiteral returns an array in the text format of Postgres.
func arrayLiteral(elements []string) string {
	if len(elements) == 0 {
		return "{}"
	}
	var out strings.Builder
	for i, e := range elements {
		out.WriteByte("{,"[min(i, 1)])
		out.WriteByte('"')
		_, _ = quoteElement.WriteString(&out, e) // writing to a Builder never fails
		out.WriteByte('"')
	}
	out.WriteByte('}')
	return out.String()
}

var quoteElement = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// analyse makes the terms of all passages in a language.
func (p *preparation) analyse(language string) (err error) {
	if p.analyzer, err = lexical.NewAnalyzer(language); err != nil {
		return err
	}
	p.language = language
	var texts []string
	for _, v := range p.versions {
		for _, sec := range v.Text.Sections {
			for _, passage := range sec.Passages {
				texts = append(texts, sec.Text[passage.Start:passage.End])
			}
		}
	}
	terms := p.analyzer.TermsOfAll(texts)
	p.versions = slices.Clone(p.versions) // a repeated transaction must find the old terms
	for i, v := range p.versions {
		sections := make([][][]string, len(v.Text.Sections))
		for j, sec := range v.Text.Sections {
			sections[j], terms = terms[:len(sec.Passages):len(sec.Passages)], terms[len(sec.Passages):]
		}
		p.versions[i].terms = sections
	}
	return nil
}
