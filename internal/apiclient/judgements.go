package apiclient

import (
	"context"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// JudgeAnswer has the language model judge whether an answer is right.
func (c *Client) JudgeAnswer(ctx context.Context, a api.AnswerToJudge) (schema.Judgement, error) {
	return post[schema.Judgement](ctx, c, "/v1/judgements", a)
}
