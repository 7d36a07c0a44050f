package modelclient

// This file is what queries ask for: how well texts answer a question.

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// questionBytes is what a question takes of a request at most; of a longer one the beginning is sent.
const questionBytes = 32 << 10

// scoresPerPart is how many texts a part has at most: their scores fit a reply.
const scoresPerPart = 2000

// Score returns the pair model's logits of each text for a question, in order, and with answers the span of each text
// that answers best, in bytes of that text. A text without a word has -100 for every score and no span. Of a text only
// the beginning is read, as far as the model reads. model names the pack; no texts give no scores and an empty model.
//
// Errors are as Encode's; when the servers' pack has no pair graph the error wraps schema.ErrInvalid.
func (c *Client) Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error) {
	if len(texts) == 0 {
		return nil, "", nil
	}
	ctx, finish := c.begin(ctx, wire.OpScore, lane, attribute.Int("texts", len(texts)), attribute.Bool("answers", answers))
	defer func() { finish(err) }()

	question = shortenOne(question, questionBytes)
	texts, cut := shorten(texts, textBytes)
	asked, _ := size(question, 0)
	parts := splitTexts(texts, scoresPerPart, partBytes-asked)
	replies := make([][]wire.ScoreReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		replies[i], err = c.scorePart(ctx, lane, question, parts[i], answers)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("score %d texts: %w", len(texts), err)
	}
	scores = make([]wire.PairScore, 0, len(texts))
	for _, some := range replies {
		for _, r := range some {
			if scores = append(scores, r.Scores...); model == "" {
				model = r.Model
			}
			if r.Model != model {
				return nil, "", fmt.Errorf("score %d texts: %w", len(texts), disagree(model, r.Model))
			}
			cut += r.Truncated
		}
	}
	if cut > 0 {
		c.options.Log.InfoContext(ctx, "texts are longer than the model reads; their scores are of their beginnings", "texts", cut, "of", len(texts))
	}
	return scores, model, nil
}

// scorePart scores one part; when its reply would be too large for a message, its halves.
func (c *Client) scorePart(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) ([]wire.ScoreReply, error) {
	reply, err := call(ctx, c, wire.OpScore, lane, func(deadline time.Time) any {
		return wire.ScoreRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Question: question, Texts: texts, Answers: answers}
	}, func(r wire.ScoreReply) *schema.RemoteError { return r.Error })
	if tooLarge(err) && len(texts) > 1 {
		first, err := c.scorePart(ctx, lane, question, texts[:len(texts)/2], answers)
		if err != nil {
			return nil, err
		}
		second, err := c.scorePart(ctx, lane, question, texts[len(texts)/2:], answers)
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	if len(reply.Scores) != len(texts) {
		return nil, fmt.Errorf("the model server gave scores of %d texts for %d", len(reply.Scores), len(texts))
	}
	return []wire.ScoreReply{reply}, nil
}

// disagree says that two servers have different packs.
func disagree(one, other string) error {
	return fmt.Errorf("model servers disagree, they have the models %q and %q; give all of them one pack (SLUICE_MODEL_PACK): %w", one, other, ErrDisagree)
}
