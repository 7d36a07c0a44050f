package main

// This file shows what is in a collection: its documents by type, some titles, and questions that
// the text suggests and the server can answer.

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/suggest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type overviewCommand struct {
	remote
	Collection string `required:"" short:"c" help:"Name or id of the collection."`
	Titles     int    `default:"10" help:"How many titles to show."`
	Questions  int    `default:"3" help:"How many questions to look for; 0 is none."`
}

// Limits of what is read and asked, however large the collection is. All documents are listed
// besides.
const (
	overviewDocuments = 16 // documents whose text is read for questions
	overviewSections  = 30 // sections of each document
	overviewAsked     = 5  // questions asked per question wanted
)

// overview is what the command prints.
type overview struct {
	Collection string             `json:"collection"`
	Documents  int                `json:"documents"`
	Types      []documentType     `json:"types"`
	Titles     []documentTitle    `json:"titles"`
	Unreadable int                `json:"unreadable,omitempty"` // documents that failed
	Unfinished int                `json:"unfinished,omitempty"` // documents that are not searchable yet
	Questions  []answeredQuestion `json:"questions"`
}

type documentType struct {
	MediaType string `json:"media_type"`
	Name      string `json:"name"`
	Documents int    `json:"documents"`
	Bytes     int64  `json:"bytes"`
}

type documentTitle struct {
	Document string `json:"document"`
	Title    string `json:"title,omitempty"`
}

// answeredQuestion is a question with the server's answer.
type answeredQuestion struct {
	Question  string            `json:"question"`
	Answer    string            `json:"answer"`
	Citations []schema.Citation `json:"citations"`
	proof     schema.Citation   // the one of Citations that proves the answer
}

func (o *overviewCommand) Run(ctx context.Context) error {
	if o.Titles < 0 || o.Questions < 0 {
		return schema.Invalid("titles and questions", "must not be negative")
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	seen, live, err := o.listDocuments(ctx, c)
	if err != nil {
		return err
	}
	if !o.JSON {
		seen.print()
	}
	questions, err := o.suggestQuestions(ctx, c, live)
	if err != nil {
		return err
	}
	if seen.Questions, err = o.answerQuestions(ctx, c, questions); err != nil {
		return err
	}
	if o.JSON {
		return printJSON(seen)
	}
	seen.printQuestions()
	return nil
}

// listDocuments lists the documents. It also returns the documents that can be asked about.
func (o *overviewCommand) listDocuments(ctx context.Context, c *apiclient.Client) (*overview, []schema.Document, error) {
	out := &overview{Collection: o.Collection, Titles: []documentTitle{}}
	types := map[string]documentType{}
	var live []schema.Document
	for d, err := range c.Documents(ctx, o.Collection, "", "") {
		if err != nil {
			return nil, nil, err
		}
		out.Documents++
		switch {
		case d.State == schema.StateFailed:
			out.Unreadable++
		case !d.State.Final():
			out.Unfinished++
		}
		media, _, _ := strings.Cut(d.MediaType, ";")
		t := types[media]
		t.MediaType, t.Name, t.Documents, t.Bytes = media, typeName(media), t.Documents+1, t.Bytes+d.Bytes
		types[media] = t
		if !d.Live {
			continue
		}
		live = append(live, d)
		if len(out.Titles) < o.Titles {
			out.Titles = append(out.Titles, documentTitle{Document: d.ExternalID, Title: d.Title})
		}
	}
	out.Types = make([]documentType, 0, len(types))
	for _, t := range types {
		out.Types = append(out.Types, t)
	}
	slices.SortFunc(out.Types, func(a, b documentType) int {
		return cmp.Or(b.Documents-a.Documents, cmp.Compare(a.MediaType, b.MediaType))
	})
	return out, live, nil
}

// suggestQuestions reads some documents and returns the questions that they suggest, in the order
// in which to ask them.
func (o *overviewCommand) suggestQuestions(
	ctx context.Context, c *apiclient.Client, live []schema.Document,
) ([]suggest.Suggestion, error) {
	if o.Questions == 0 {
		return nil, nil
	}
	var out []suggest.Suggestion
	for _, d := range sampleDocuments(live, overviewDocuments) {
		page, err := c.SectionPage(ctx, d.ID, apiclient.TextPage{Limit: overviewSections})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", d.ExternalID, err)
		}
		sections := make([]schema.Section, len(page.Items))
		for i, s := range page.Items {
			sections[i] = s.Section
		}
		out = append(out, suggest.Questions(d.ExternalID, sections)...)
	}
	return suggest.Order(out), nil
}

// sampleDocuments picks at most n documents: first one of each type, then the others evenly over
// the list.
func sampleDocuments(documents []schema.Document, n int) []schema.Document {
	var firsts, others []schema.Document
	seen := map[string]bool{}
	for _, d := range documents {
		if seen[d.MediaType] {
			others = append(others, d)
		} else {
			firsts = append(firsts, d)
			seen[d.MediaType] = true
		}
	}
	out := firsts[:min(n, len(firsts))]
	room := min(n-len(out), len(others))
	for i := range room {
		out = append(out, others[i*len(others)/room])
	}
	return out
}

// answerQuestions asks the questions, and returns those that are answered from the text that
// suggested them.
func (o *overviewCommand) answerQuestions(
	ctx context.Context, c *apiclient.Client, questions []suggest.Suggestion,
) ([]answeredQuestion, error) {
	out := []answeredQuestion{}
	quoted := map[schema.Span]bool{}
	for _, q := range questions[:min(len(questions), overviewAsked*o.Questions)] {
		if len(out) == o.Questions {
			break
		}
		a, err := c.Ask(ctx, api.Query{Collection: o.Collection, Query: q.Text})
		if err != nil {
			return nil, fmt.Errorf("asking %q: %w", q.Text, err)
		}
		cited := slices.IndexFunc(a.Citations, func(c schema.Citation) bool { return proves(c, q) })
		if !a.Supported || cited < 0 || quoted[a.Citations[cited].Span] {
			continue
		}
		proof := a.Citations[cited]
		quoted[proof.Span] = true
		out = append(out, answeredQuestion{Question: q.Text, Answer: a.Answer, Citations: a.Citations, proof: proof})
	}
	return out, nil
}

// minQuoteWords is the minimum number of words in a quote. A shorter one is often only a heading.
const minQuoteWords = 5

// proves reports whether a citation is from the text that suggested a question: the sentence that
// answers it if that is known, else any sentence of the document.
func proves(c schema.Citation, q suggest.Suggestion) bool {
	words := strings.Fields(c.Quote)
	if c.Document != q.Document || len(words) < minQuoteWords {
		return false
	}
	quote := strings.Join(words, " ")
	if q.Evidence == "" {
		return !strings.HasSuffix(quote, "?")
	}
	return strings.Contains(quote, q.Evidence) || strings.Contains(q.Evidence, quote)
}

func (o *overview) print() {
	fmt.Print(plural(o.Documents, "document"))
	if o.Unreadable > 0 {
		fmt.Printf(", %d of them not readable (sluice documents list -c %s --state failed says why)",
			o.Unreadable, printable(o.Collection))
	}
	if o.Unfinished > 0 {
		fmt.Printf(", %d of them not searchable yet", o.Unfinished)
	}
	fmt.Println()
	for _, t := range o.Types {
		fmt.Printf("  %5d  %s, %s\n", t.Documents, printable(t.Name), bytesText(t.Bytes))
	}
	fmt.Println()
	for _, t := range o.Titles {
		if t.Title == "" || t.Title == path.Base(t.Document) {
			fmt.Printf("  %s\n", printable(t.Document))
		} else {
			fmt.Printf("  %s  (%s)\n", printable(t.Title), printable(t.Document))
		}
	}
	if more := o.Documents - o.Unreadable - o.Unfinished - len(o.Titles); more > 0 {
		fmt.Printf("  ... and %d more\n", more)
	}
}

func (o *overview) printQuestions() {
	if len(o.Questions) == 0 {
		return
	}
	fmt.Println("\nQuestions that they answer:")
	for _, q := range o.Questions {
		fmt.Printf("\n  %s\n", printable(q.Question))
		indent(os.Stdout, "      | ", q.Answer, 92)
		fmt.Printf("      %s, %s\n", printable(q.proof.Document), printable(q.proof.Location))
	}
}

// typeNames are common names of the media types that Sluice parses.
var typeNames = map[string]string{
	"text/plain":      "text",
	"text/markdown":   "Markdown",
	"text/html":       "HTML",
	"text/csv":        "CSV tables",
	"application/pdf": "PDF",
	"application/rtf": "RTF",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   "Word (DOCX)",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         "Excel (XLSX)",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": "PowerPoint (PPTX)",
	"application/epub+zip":                            "EPUB",
	"application/vnd.oasis.opendocument.text":         "ODT",
	"application/vnd.oasis.opendocument.spreadsheet":  "ODS",
	"application/vnd.oasis.opendocument.presentation": "ODP",
	"application/zip":                                 "ZIP archives",
	"application/mbox":                                "mailboxes",
	"application/vnd.ms-outlook":                      "Outlook e-mail",
	"application/jsonl":                               "JSON Lines",
	"message/rfc822":                                  "e-mail",
}

func typeName(media string) string { return cmp.Or(typeNames[media], media, "of unknown type") }
