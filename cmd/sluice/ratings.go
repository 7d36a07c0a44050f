package main

// This file lists and sets ratings of answers.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type ratingsCommand struct {
	List   ratingsList   `cmd:"" default:"withargs" help:"List ratings, newest first: the key's, and for an admin the tenant's."`
	Set    ratingsSet    `cmd:"" help:"Rate the answer of a question or job."`
	Remove ratingsRemove `cmd:"" help:"Take a rating back."`
	Export ratingsExport `cmd:"" help:"Write ratings as a dataset that sluice eval takes."`
}

type ratingsList struct {
	remote
	Collection string `short:"c" help:"Name or id: only answers from this collection."`
	Rating     string `enum:",up,down" default:"" help:"Only those that are up, or down."`
	Own        bool   `help:"Only those of the key, also for an admin."`
}

func (l *ratingsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	q := apiclient.RatingQuery{Rating: schema.Opinion(l.Rating), Collection: l.Collection, Own: l.Own}
	return printList(l.JSON, c.Ratings(ctx, q), "QUESTION RATING RATED PLAN TEXT COMMENT", func(r schema.RatedAnswer) []any {
		return []any{r.Question, r.Rating.Rating, r.UpdatedAt.Local().Format(time.DateTime), r.Plan, r.Text, r.Comment}
	})
}

// questionArg is the argument of commands on a question's rating.
type questionArg struct {
	remote
	Question string `arg:"" help:"The id of the question or job."`
}

func (o questionArg) resolve() (*apiclient.Client, uuid.UUID, error) {
	c, err := o.client()
	if err != nil {
		return nil, uuid.Nil, err
	}
	id, err := schema.ParseID("question", o.Question)
	return c, id, err
}

type ratingsSet struct {
	questionArg
	Rating  string `arg:"" enum:"up,down" help:"up or down."`
	Comment string `help:"Why."`
}

func (s *ratingsSet) Run(ctx context.Context) error {
	c, id, err := s.resolve()
	if err != nil {
		return err
	}
	r, err := c.Rate(ctx, id, api.NewRating{Rating: schema.Opinion(s.Rating), Comment: s.Comment})
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(r)
	}
	fmt.Printf("%s is rated %s\n", id, r.Rating)
	return nil
}

type ratingsRemove struct{ questionArg }

func (r *ratingsRemove) Run(ctx context.Context) error {
	c, id, err := r.resolve()
	if err != nil {
		return err
	}
	if err := c.Unrate(ctx, id); err != nil {
		return err
	}
	if r.JSON {
		return printJSON(map[string]any{"question_id": id, "removed": true})
	}
	fmt.Println("removed the rating of " + id.String())
	return nil
}
