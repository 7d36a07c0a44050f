package main

// This file measures the quality of answers on articles with questions whose answers are known
// (SQuAD's format): whether it is recognised that a quote supports a sentence, and how often the
// provider "extractive" finds the answer, says that there is none when there is none, and selects
// the right choice. It does not measure speed.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

type answersCommand struct {
	File      string        `arg:"" help:"Articles with questions in the form of SQuAD: a list, or an object with data, of titles and paragraphs."`
	Articles  []int         `placeholder:"N,..." help:"The places, from 0, of the articles to ask about: those that the models were not trained on. All when empty."`
	Questions int           `default:"600" help:"How many questions the provider is asked, of each kind."`
	Sentences int           `default:"6000" help:"How many sentences are compared with quotes; articles at even and odd places are told apart."`
	Seed      uint64        `default:"1" help:"Makes the choice of questions."`
	Pack      string        `placeholder:"FOLDER" help:"The model pack to measure with; the one that comes with Sluice when empty."`
	Program   string        `placeholder:"FILE" help:"The gpu-segmenter to ask; the one beside this program when empty."`
	Timeout   time.Duration `default:"1h" help:"Longest time of the whole measurement."`
}

type squadArticle struct {
	Title      string           `json:"title"`
	Paragraphs []squadParagraph `json:"paragraphs"`
}

type squadParagraph struct {
	Context   string          `json:"context"`
	Questions []squadQuestion `json:"qas"`
}

type squadQuestion struct {
	Question string `json:"question"`
	Answers  []struct {
		Text  string `json:"text"`
		Start int    `json:"answer_start"` // in characters
	} `json:"answers"`
}

func readSquad(name string) ([]squadArticle, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read articles: %w", err)
	}
	var out []squadArticle
	if json.Unmarshal(data, &out) != nil {
		var object struct{ Data []squadArticle }
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("read articles of %s: %w", name, err)
		}
		out = object.Data
	}
	for i := range out {
		out[i].Title = strings.ReplaceAll(out[i].Title, "_", " ")
	}
	return out, nil
}

func (c *answersCommand) Run(ctx context.Context) (err error) {
	articles, err := readSquad(c.File)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	if len(c.Articles) > 0 {
		var some []squadArticle
		for _, i := range c.Articles {
			if i < 0 || i >= len(articles) {
				return fmt.Errorf("--articles: there is no article %d among %d", i, len(articles))
			}
			some = append(some, articles[i])
		}
		articles = some
	}
	b, err := newModelInstallation(ctx, c.Program, c.Pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	provider := llm.NewExtractive(b.client, b.client)
	if c.Sentences > 0 {
		figures, err := measureSupport(ctx, provider, articles, c.Sentences, c.Seed)
		if err != nil {
			return fmt.Errorf("answers: %w", err)
		}
		if err := printSupport(os.Stdout, figures); err != nil {
			return err
		}
	}
	if c.Questions == 0 {
		return nil
	}
	pool := newPool(articles)
	asked := pool.sample(c.Questions, rand.New(rand.NewPCG(c.Seed, 3)))
	progressf("answers: asking %d questions of %d paragraphs", len(asked), len(pool.texts))
	figures, err := measureAsking(ctx, provider, pool, asked)
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	return figures.print(os.Stdout)
}

// pool has the paragraphs of articles, which can be searched by words.
type pool struct {
	articles []squadArticle
	texts    []pooled
	df       map[string]float64
}

type pooled struct {
	article, paragraph int
	text               string
	words              map[string]bool
}

func newPool(articles []squadArticle) *pool {
	p := &pool{articles: articles, df: map[string]float64{}}
	for i, a := range articles {
		for j, x := range a.Paragraphs {
			words := text.ContentWords(a.Title + " " + x.Context)
			for w := range words {
				p.df[w]++
			}
			p.texts = append(p.texts, pooled{i, j, x.Context, words})
		}
	}
	return p
}

// sampled is a question and the position of its answer.
type sampled struct {
	squadQuestion
	article, paragraph int
}

func (p *pool) sample(n int, r *rand.Rand) []sampled {
	var out []sampled
	for range 50 * n {
		x := p.texts[r.IntN(len(p.texts))]
		questions := p.articles[x.article].Paragraphs[x.paragraph].Questions
		if len(questions) == 0 {
			continue
		}
		q := questions[r.IntN(len(questions))]
		if len(q.Answers) > 0 && strings.TrimSpace(q.Question) != "" {
			out = append(out, sampled{q, x.article, x.paragraph})
		}
		if len(out) == n {
			break
		}
	}
	return out
}

// contextPassages is the number of passages with which a question is asked.
const contextPassages = 10

// nearest returns the passages that share most rare words with a question, among those that may
// allows.
func (p *pool) nearest(question string, may func(pooled) bool) []wire.LLMPassage {
	type ranked struct {
		at    int
		score float64
	}
	var all []ranked
	words := text.ContentWords(question)
	for i, x := range p.texts {
		score := 0.0
		for w := range words {
			if x.words[w] {
				score += math.Log(1 + float64(len(p.texts))/p.df[w])
			}
		}
		if score /= math.Sqrt(40 + float64(len(x.words))); score > 0 && may(x) {
			all = append(all, ranked{i, score})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if a.score > b.score {
			return -1
		}
		return 1
	})
	var out []wire.LLMPassage
	for _, x := range all[:min(len(all), contextPassages)] {
		out = append(out, wire.LLMPassage{Title: p.articles[p.texts[x.at].article].Title, Text: p.texts[x.at].text})
	}
	return out
}

func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
