package main

// This file learns from questions with known answers what language models know and prefer.

import (
	"context"
	"fmt"
	"iter"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type trainCommand struct {
	Labels trainLabels `cmd:"" help:"Ask the language model questions with and without texts, and learn which texts it prefers (FIT-RAG's llm_prefer)."`
	List   trainList   `cmd:"" help:"List what was learnt on a collection."`
	Forget trainForget `cmd:"" help:"Forget it, with the labels and what imported questions taught."`
}

type questionsCommand struct {
	Import questionsImport `cmd:"" help:"Ask the language model questions with known answers without retrieval, so that plans learn what it knows (FIT-RAG's S_nn); plans choose asks them, too."`
}

type trainLabels struct {
	labelFlags
	Questions string `required:"" type:"existingfile" placeholder:"FILE" help:"Questions with answers that the collection's documents have: JSON Lines or CSV."`
	Texts     int    `default:"10" help:"How many texts of each question are labelled, of those found for it (FIT-RAG: 50)."`
	Seed      uint64 `default:"1" help:"Divides the questions into those to learn from and those to measure on."`
}

// Help returns the long help text.
func (*trainLabels) Help() string {
	return "Every question takes one call to the language model without texts and, where that answer is wrong, one for each text. The tenant's budgets apply, " +
		"and the server keeps every reply: if the command ends early (a budget, an error, Ctrl-C), run it again to continue; nothing is paid for twice. " +
		"docs/fitrag.md has the details."
}

// trainResult is what training prints as JSON.
type trainResult struct {
	*labelResult
	Preference *schema.Preference `json:"preference,omitempty"`
	Unlearnt   string             `json:"unlearnt,omitempty"` // why there is no preference
}

func (c *trainLabels) Run(ctx context.Context) error {
	if c.Texts < 1 || c.Texts > schema.MaxLabelTexts {
		return schema.Invalid("texts", "needs a whole number from 1 to %d", schema.MaxLabelTexts)
	}
	client, done, err := c.begin(ctx, c.Questions, c.Texts, "questions labelled")
	if err != nil {
		return err
	}
	out := trainResult{labelResult: done}
	if !c.DryRun && done.Texts > 0 && ctx.Err() == nil {
		p, err := client.LearnPreference(ctx, c.Collection, api.NewPreference{Model: done.Model, Seed: c.Seed})
		if err != nil {
			out.Unlearnt = err.Error()
		} else {
			out.Preference = &p
		}
	}
	if c.JSON {
		return printJSON(out)
	}
	c.print(done)
	switch p := out.Preference; {
	case out.Unlearnt != "":
		fmt.Printf("learnt     nothing: %s\n", printable(out.Unlearnt))
	case p != nil && p.Kept:
		fmt.Printf("learnt     from %d questions: on %d held out, the area under the ROC curve is %.3f; that of the pack's own reader %.3f (w %.2f)\n", p.Questions, p.HeldOut, p.Area, p.OwnArea, p.Weight)
	case p != nil:
		fmt.Printf("learnt     from %d questions, but the pack's own reader stays in use: on %d held out, its area under the ROC curve is %.3f, against %.3f\n", p.Questions, p.HeldOut, p.OwnArea, p.Area)
	}
	return nil
}

type questionsImport struct {
	labelFlags
	File string `arg:"" type:"existingfile" help:"Questions with answers: JSON Lines or CSV."`
}

func (c *questionsImport) Run(ctx context.Context) error {
	_, done, err := c.begin(ctx, c.File, 0, "questions asked")
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(done)
	}
	c.print(done)
	return nil
}

type trainList struct {
	remote
	Collection string `required:"" short:"c" help:"Name or id of the collection."`
}

func (c *trainList) Run(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	all, err := client.Preferences(ctx, c.Collection)
	if err != nil {
		return err
	}
	return printList(c.JSON, withoutErrors(all), "MODEL GRAPH QUESTIONS TEXTS AREA OWN USED", func(p schema.Preference) []any {
		return []any{p.Model, p.Graph, p.Questions, p.Texts, fmt.Sprintf("%.3f", p.Area), fmt.Sprintf("%.3f", p.OwnArea), p.Kept}
	})
}

// withoutErrors converts a slice for printList.
func withoutErrors[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

type trainForget struct {
	remote
	Collection string `required:"" short:"c" help:"Name or id of the collection."`
}

func (c *trainForget) Run(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return client.ForgetPreferences(ctx, c.Collection)
}
