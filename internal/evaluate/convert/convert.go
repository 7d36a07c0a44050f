// Package convert turns the files that question sets are published as into folders that
// sluice eval reads (package beir). Files are read as streams: what is kept in memory are
// the questions, and a hash of each document's id.
package convert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
	"github.com/sluice-rag/sluice/schema"
)

// Options say what is converted.
type Options struct {
	Format  string   // one of FormatNames, or Auto
	Sources []string // files as published, or a BEIR folder
	Folder  string   // what is written
	Replace bool     // a folder that is there

	// Split is the name of the qrels file. Of a BEIR set it is the split that is kept, all where it
	// is empty; else empty means "test".
	Split string
	// Limit is how many questions are drawn; 0 is all. The same seed draws the same ones.
	Limit int
	Seed  uint64
	// Others is how many of the documents are kept, drawn at random, that came with none of the
	// questions; below 0: all.
	Others int
	// Scope has each question asked about the documents alone that it came with.
	Scope bool

	// Progress is told how far a file is read, in bytes; nil: nobody is.
	Progress func(file string, done, of int64)
}

// Summary is what was written.
type Summary struct {
	Format        string    `json:"format"`
	Folder        string    `json:"folder"`
	Splits        []string  `json:"splits"` // with judgements
	Documents     int       `json:"documents"`
	Questions     int       `json:"questions"`
	WithAnswers   int       `json:"with_answers"`
	WithEvidence  int       `json:"with_evidence"`
	WithDocuments int       `json:"with_documents"` // to which a document is relevant
	Unanswerable  int       `json:"unanswerable"`
	LeftOut       []LeftOut `json:"left_out"`
	Judgements    int       `json:"judgements"`
}

// LeftOut counts what was not taken over for one reason.
type LeftOut struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Check reports options that cannot be.
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

// Run converts. Errors name file, line or record, and field; nothing is written then.
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

// read reads the questions of all sources, draws those that are kept, and then reads the
// documents that come without questions, which may be very many.
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

// why tells what was left out.
func (s *set) why() string {
	var b strings.Builder
	for _, l := range s.leftOut() {
		fmt.Fprintf(&b, "; left out: %d %s", l.Count, l.What)
	}
	return b.String()
}
