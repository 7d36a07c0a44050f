// Package convert converts published question sets to folders that sluice eval reads (package
// beir). Files are read as streams: only the questions, and a hash of each document's id, are kept
// in memory.
package convert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
	"github.com/sluice-rag/sluice/schema"
)

// Options are the options of a conversion.
type Options struct {
	Format  string   // one of FormatNames, or Auto
	Sources []string // files as published, or a BEIR folder
	Folder  string   // the folder to write
	Replace bool     // an existing folder

	// Split is the name of the qrels file; empty: "test". For a BEIR set it is the split to keep;
	// empty: all.
	Split string
	// Limit is how many questions are drawn; 0: all. The same seed draws the same questions.
	Limit int
	Seed  uint64
	// Others is how many of the documents that came with no kept question are kept, drawn at
	// random; negative: all.
	Others int
	// Scope restricts each question to the documents that it came with.
	Scope bool

	// Progress is called with how far a file is read, in bytes; may be nil.
	Progress func(file string, done, of int64)
}

// Summary is a summary of what was written.
type Summary struct {
	Format        string    `json:"format"`
	Folder        string    `json:"folder"`
	Splits        []string  `json:"splits"` // with judgements
	Documents     int       `json:"documents"`
	Questions     int       `json:"questions"`
	WithAnswers   int       `json:"with_answers"`
	WithEvidence  int       `json:"with_evidence"`
	WithDocuments int       `json:"with_documents"` // with a relevant document
	Unanswerable  int       `json:"unanswerable"`
	LeftOut       []LeftOut `json:"left_out"`
	Judgements    int       `json:"judgements"`
}

// LeftOut counts what was left out for one reason.
type LeftOut struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	var errs []error
	if _, known := formatNamed(o.Format); !known && o.Format != Auto {
		errs = append(errs, schema.Invalid("format", "%q is none of: %s", o.Format, strings.Join(append([]string{Auto}, FormatNames()...), ", ")))
	}
	if len(o.Sources) == 0 {
		errs = append(errs, schema.Invalid("source", "name the files to convert, and last the folder to write"))
	}
	if o.Limit < 0 {
		errs = append(errs, schema.Invalid("limit", "%d is negative", o.Limit))
	}
	if o.Split != "" {
		errs = append(errs, beir.CheckSplit(o.Split))
	}
	return errors.Join(errs...)
}

// Run converts. Its errors name the file, the line or record, and the field. It writes nothing
// then.
func Run(ctx context.Context, o Options) (_ Summary, err error) {
	if err := o.Check(); err != nil {
		return Summary{}, err
	}
	sources, format, err := identify(ctx, o)
	if err != nil {
		return Summary{}, err
	}
	folder, err := beir.Create(o.Folder, o.Replace)
	if err != nil {
		return Summary{}, err
	}
	s := newSet(o, folder)
	if err := s.read(ctx, sources); err != nil {
		return Summary{}, errors.Join(err, folder.Discard())
	}
	done, err := s.write()
	if err != nil {
		return Summary{}, errors.Join(err, folder.Discard())
	}
	done.Format, done.Folder = format, o.Folder
	return done, folder.Commit()
}

// read reads the questions of all sources, draws those to keep, and then reads the documents
// without questions, of which there may be very many.
func (s *set) read(ctx context.Context, sources []sourceFile) error {
	for _, first := range []bool{true, false} {
		for _, src := range sources {
			if src.kind.questions == nil || src.kind.first != first {
				continue
			}
			if err := src.kind.questions(ctx, s, src); err != nil {
				return err
			}
		}
	}
	if len(s.questions) == 0 {
		return fmt.Errorf("there is no question in %s%s", strings.Join(s.options.Sources, ", "), s.why())
	}
	s.draw()
	for _, src := range sources {
		if src.kind.corpus == nil {
			continue
		}
		if err := src.kind.corpus(ctx, s, src); err != nil {
			return err
		}
	}
	return nil
}

// why lists what was left out, for an error message.
func (s *set) why() string {
	var b strings.Builder
	for _, l := range s.leftOut() {
		fmt.Fprintf(&b, "; left out: %d %s", l.Count, l.What)
	}
	return b.String()
}
