package modelclient

// This file contains the operations for queries: how well texts answer a question.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// questionBytes is the most that a question takes in a request; longer questions are cut.
const questionBytes = 32 << 10

const (
	// scoresPerPart is the most texts in a part: their scores fit in a reply.
	scoresPerPart = 2000
	// rerankPerPart is the most texts in a part for the reranker, which takes ten times as long per
	// text. So many are scored within one try, also on the interactive lane while other parts run
	// in parallel.
	rerankPerPart = 32
	// featuresPerPart is the most texts in a part whose reply contains features, too: up to 6 KB
	// per text.
	featuresPerPart = 128
)

// Score returns the pair model's logits of each text for a question, in order. With answers, it
// also returns the span of each text that answers best, in bytes of that text. A text without a
// word has -100 for every score and no span. Only the beginning of a text is read, up to the
// model's limit. model names the pack. Without texts, Score returns no scores and an empty model.
//
// Errors are as Encode's; when the servers' pack has no pair graph the error wraps
// schema.ErrInvalid.
func (c *Client) Score(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error) {
	out, err := c.score(ctx, wire.ScoreRequest{Lane: lane, Question: question, Answers: answers}, texts)
	return out.Scores, out.Model, err
}

// ScoreWithFeatures is Score with the features from which has_answer and llm_prefer are computed,
// if the pair graph outputs them; else there are no features.
func (c *Client) ScoreWithFeatures(ctx context.Context, lane wire.Lane, question string, texts []string) (wire.ScoresWithFeatures, error) {
	return c.score(ctx, wire.ScoreRequest{Lane: lane, Question: question, Features: true}, texts)
}

// Rerank is Score by the pack's reranker, which is better and takes about ten times as long. Its
// logits have a scale of their own. When the servers' pack has no graph reranker the error wraps
// schema.ErrInvalid; when a server is too old to know the reranker, it wraps ErrPackMismatch.
func (c *Client) Rerank(ctx context.Context, lane wire.Lane, question string, texts []string, answers bool) (scores []wire.PairScore, model string, err error) {
	out, err := c.score(ctx, wire.ScoreRequest{Lane: lane, Question: question, Answers: answers, Graph: wire.GraphReranker}, texts)
	return out.Scores, out.Model, err
}

// score sends the request asks for texts, in parts, and joins the replies.
func (c *Client) score(ctx context.Context, request wire.ScoreRequest, texts []string) (out wire.ScoresWithFeatures, err error) {
	if len(texts) == 0 {
		return out, nil
	}
	op, maxTexts := wire.OpScore, scoresPerPart
	switch {
	case request.Graph == wire.GraphReranker:
		op, maxTexts = wire.OpRerank, rerankPerPart
	case request.Features:
		maxTexts = featuresPerPart
	}
	ctx, finish := c.begin(ctx, op, request.Lane, attribute.Int("texts", len(texts)), attribute.Bool("answers", request.Answers))
	defer func() { finish(err) }()

	request.Question = shortenOne(request.Question, questionBytes)
	texts, truncated := shorten(texts, textBytes)
	questionSize, _ := size(request.Question, 0)
	parts := splitTexts(texts, maxTexts, partBytes-questionSize)
	replies := make([][]wire.ScoreReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		replies[i], err = c.scorePart(ctx, request, parts[i])
		return err
	})
	if err != nil {
		return out, fmt.Errorf("%s %d texts: %w", op, len(texts), err)
	}
	first := replies[0][0]
	out = wire.ScoresWithFeatures{Model: first.Model, Of: first.FeaturesOf, Scores: make([]wire.PairScore, 0, len(texts))}
	for _, partReplies := range replies {
		for _, r := range partReplies {
			if r.Model != first.Model || r.FeaturesOf != first.FeaturesOf {
				return wire.ScoresWithFeatures{}, fmt.Errorf("%s %d texts: %w", op, len(texts), packMismatch(first.Model, r.Model))
			}
			out.Scores = append(out.Scores, r.Scores...)
			if r.Features != nil {
				out.Features.Dimension, out.Features.Data = r.Features.Dimension, append(out.Features.Data, r.Features.Data...)
			}
			truncated += r.Truncated
		}
	}
	if truncated > 0 {
		c.options.Log.InfoContext(ctx, "texts are longer than the model's limit; only their beginnings are scored", "texts", truncated, "of", len(texts))
	}
	return out, nil
}

// scorePart scores one part. When the reply would be too large for a message, it scores the two
// halves of the part instead.
func (c *Client) scorePart(ctx context.Context, request wire.ScoreRequest, texts []string) ([]wire.ScoreReply, error) {
	op := wire.OpScore
	if request.Graph == wire.GraphReranker {
		op = wire.OpRerank
	}
	reply, err := call(ctx, c, op, request.Lane, func(deadline time.Time) any {
		request := request
		request.Envelope, request.Deadline, request.Texts = wire.Header(), deadline, texts
		return request
	}, func(r wire.ScoreReply) *schema.RemoteError { return r.Error })
	if tooLarge(err) && len(texts) > 1 {
		first, err := c.scorePart(ctx, request, texts[:len(texts)/2])
		if err != nil {
			return nil, err
		}
		second, err := c.scorePart(ctx, request, texts[len(texts)/2:])
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	if len(reply.Scores) != len(texts) {
		return nil, fmt.Errorf("the model server gave scores of %d texts for %d", len(reply.Scores), len(texts))
	}
	if f := reply.Features; f != nil && f.Len() != len(texts) {
		return nil, fmt.Errorf("the model server gave features of %d texts for %d", f.Len(), len(texts))
	}
	if reply.Graph != request.Graph {
		return nil, fmt.Errorf("a model server with the pack %s read by %q where %q was asked for: give all servers the same build: %w",
			reply.Model, cmp.Or(reply.Graph, wire.GraphPair), cmp.Or(request.Graph, wire.GraphPair), ErrPackMismatch)
	}
	return []wire.ScoreReply{reply}, nil
}

// packMismatch returns an error for two servers with different packs.
func packMismatch(one, other string) error {
	return fmt.Errorf("model servers disagree, they have the models %q and %q; give all of them one pack (SLUICE_MODEL_PACK): %w", one, other, ErrPackMismatch)
}

// Fuse returns, for each text, how much an answer to the question would draw on it when all are
// read together (FunnelRAG's eq. 3), in order: raw attention, only comparable within one call.
// tokens is how many of a text's tokens represent it (0: the paper's 4); withQuestion lets tokens
// of the question be among them. A text without a word has -100.
//
// All texts go into one request, since each score depends on all of them: more than the pack reads
// together, or than fit one message of 512 KB, are an error that wraps schema.ErrInvalid. Other
// errors are as Score's.
func (c *Client) Fuse(ctx context.Context, lane wire.Lane, question string, texts []string, tokens int, withQuestion bool) (scores []float32, model string, err error) {
	if len(texts) == 0 {
		return nil, "", nil
	}
	ctx, finish := c.begin(ctx, wire.OpFuse, lane, attribute.Int("texts", len(texts)))
	defer func() { finish(err) }()

	question = shortenOne(question, questionBytes)
	bytes, _ := size(question, 0)
	for _, text := range texts {
		n, _ := size(text, 0)
		bytes += n
	}
	if bytes > partBytes {
		return nil, "", fmt.Errorf("fuse %d texts: %w", len(texts), schema.Invalid("texts",
			"they are read together and take %d bytes, a request has room for %d: fuse fewer or shorter ones", bytes, partBytes))
	}
	reply, err := call(ctx, c, wire.OpFuse, lane, func(deadline time.Time) any {
		return wire.FuseRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Question: question, Texts: texts, Tokens: tokens, WithQuestion: withQuestion}
	}, func(r wire.FuseReply) *schema.RemoteError { return r.Error })
	if err != nil {
		return nil, "", fmt.Errorf("fuse %d texts: %w", len(texts), err)
	}
	if len(reply.Scores) != len(texts) {
		return nil, "", fmt.Errorf("fuse %d texts: the model server gave %d scores", len(texts), len(reply.Scores))
	}
	if reply.Truncated > 0 {
		c.options.Log.InfoContext(ctx, "texts are longer than the fuser's limit; only their beginnings are scored", "texts", reply.Truncated, "of", len(texts))
	}
	return reply.Scores, reply.Model, nil
}

// contextsPerPart is the most contexts in a part: each has ten pairs of numbers of up to 16 bytes
// each.
const contextsPerPart = 1000

// Detect returns, for each context, the probability that its texts are enough to answer with. They
// are enough if it is at least threshold. A context is the (has_answer, llm_prefer) scores of up to
// wire.DetectPairs texts, best first. Errors are as Score's. Without contexts, Detect returns
// nothing.
func (c *Client) Detect(ctx context.Context, lane wire.Lane, contexts [][][2]float32) (enough []float32, threshold float64, model string, err error) {
	if len(contexts) == 0 {
		return nil, 0, "", nil
	}
	ctx, finish := c.begin(ctx, wire.OpDetect, lane, attribute.Int("contexts", len(contexts)))
	defer func() { finish(err) }()

	parts := slices.Collect(slices.Chunk(contexts, contextsPerPart))
	replies := make([]wire.DetectReply, len(parts))
	err = c.each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		replies[i], err = call(ctx, c, wire.OpDetect, lane, func(deadline time.Time) any {
			return wire.DetectRequest{Envelope: wire.Header(), Lane: lane, Deadline: deadline, Contexts: parts[i]}
		}, func(r wire.DetectReply) *schema.RemoteError { return r.Error })
		if err == nil && len(replies[i].Enough) != len(parts[i]) {
			err = fmt.Errorf("the model server gave %d probabilities for %d contexts", len(replies[i].Enough), len(parts[i]))
		}
		return err
	})
	if err != nil {
		return nil, 0, "", fmt.Errorf("detect for %d contexts: %w", len(contexts), err)
	}
	for _, r := range replies {
		if r.Model != replies[0].Model || r.Threshold != replies[0].Threshold {
			return nil, 0, "", fmt.Errorf("detect for %d contexts: %w", len(contexts), packMismatch(replies[0].Model, r.Model))
		}
		enough = append(enough, r.Enough...)
	}
	return enough, replies[0].Threshold, replies[0].Model, nil
}
