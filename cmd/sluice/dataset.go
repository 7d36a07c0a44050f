package main

// This file converts published question sets into folders for sluice eval.

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/convert"
	"github.com/sluice-rag/sluice/schema"
)

type datasetCommand struct {
	Convert datasetConvert `cmd:"" help:"Turn the published files of a question set into a folder that sluice eval reads."`
}

type datasetConvert struct {
	Format string   `arg:"" help:"squad, hotpotqa, 2wiki, musique, dpr, nq-open, popqa, qasper, pubhealth, beir; auto finds it out."`
	Paths  []string `arg:"" name:"source" help:"The files as published (.gz, too), and last the folder to write."`

	Limit   int    `help:"Convert only so many questions, drawn at random; 0 is all."`
	Seed    uint64 `default:"1" help:"Seed of the draw."`
	Others  *int   `placeholder:"N" help:"Of the documents that came with none of the questions keep N, drawn at random; when left out all."`
	Split   string `help:"Name of the qrels file: test when left out. Of a BEIR set the split to keep: all when left out."`
	Scope   bool   `help:"Have each question asked about the documents alone that it came with."`
	Replace bool   `help:"Replace a folder of a dataset that is there."`
	JSON    bool   `help:"Print JSON, for programs."`
}

// shownFrom is the size of a file, in bytes, from which its progress is shown.
const shownFrom = 8 << 20

func (c *datasetConvert) Run(ctx context.Context) error {
	last := len(c.Paths) - 1
	if last < 1 {
		return schema.Invalid("source", "name the files to convert, and last the folder to write")
	}
	o := convert.Options{Format: c.Format, Sources: c.Paths[:last], Folder: c.Paths[last], Replace: c.Replace,
		Split: c.Split, Limit: c.Limit, Seed: c.Seed, Others: -1, Scope: c.Scope}
	if c.Others != nil {
		if o.Others = *c.Others; o.Others < 0 {
			return schema.Invalid("others", "%d is negative", o.Others)
		}
	}
	if !c.JSON {
		bars := newSteps()
		defer bars.end()
		o.Progress = func(file string, done, of int64) {
			if of > shownFrom {
				bars.show(file+" (KB)", int(done>>10), int(of>>10))
			}
		}
	}
	done, err := convert.Run(ctx, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(done)
	}
	printConverted(done)
	return nil
}

func printConverted(s convert.Summary) {
	fmt.Printf("%s (%s): %d documents, %d questions: %d with answers, %d with evidence, %d with documents, %d unanswerable\n",
		printable(s.Folder), s.Format, s.Documents, s.Questions, s.WithAnswers, s.WithEvidence, s.WithDocuments, s.Unanswerable)
	for _, l := range s.LeftOut {
		fmt.Fprintf(os.Stderr, "left out: %d %s\n", l.Count, printable(l.What))
	}
	switch next := "sluice eval " + printable(s.Folder); {
	case s.WithDocuments == 0:
		fmt.Printf("next: %s --answers\n", next)
	case strings.Join(s.Splits, "") == "test":
		fmt.Printf("next: %s\n", next)
	default:
		fmt.Printf("next: %s --split %s\n", next, s.Splits[0])
	}
}
