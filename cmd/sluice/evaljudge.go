package main

// This file lets the server's language model judge answers.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// judge implements evaluate.Judge.
type judge struct{ client *apiclient.Client }

func (j judge) Judge(ctx context.Context, q evaluate.Topic, answer string) (schema.Judgement, error) {
	return j.client.JudgeAnswer(ctx, api.AnswerToJudge{Question: q.Text, References: references(q.Answers), Answer: answer})
}

// references returns the reference answers for the judge: distinct ones, up to the maximum number.
func references(answers []string) []string {
	var out []string
	for _, a := range answers {
		if a = strings.TrimSpace(a); a != "" && !slices.Contains(out, a) && len(out) < schema.MaxReferences {
			out = append(out, a)
		}
	}
	return out
}

// canJudge returns an error if the server has no language model, before anything is measured. It
// makes no call of a model.
func canJudge(ctx context.Context, client *apiclient.Client) error {
	_, err := client.JudgeAnswer(ctx, api.AnswerToJudge{Question: "?", References: []string{"?"}, Answer: "?", DryRun: true})
	var p *api.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && p.Status == http.StatusUnprocessableEntity:
		return schema.Invalid("judge", "%s; or leave the judge out", p.Detail)
	}
	return fmt.Errorf("ask which language model judges: %w", err)
}

// labels reads labels of answers by people.
func (c *evalCommand) labels() (evaluate.HumanLabels, error) {
	switch {
	case c.Labels == "":
		return evaluate.HumanLabels{}, nil
	case !c.Judge:
		return evaluate.HumanLabels{}, schema.Invalid("judge-labels", "are only for comparison with a judge: add --judge")
	}
	return evaluate.ReadHumanLabels(c.Labels)
}
