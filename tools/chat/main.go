// Command chat asks a server with OpenAI's client for Go and prints, as one line of JSON, what the
// client parsed from the replies. client.mjs and client.py do the same with the clients for
// JavaScript and Python; tests compare the three.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
)

type annotation struct {
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

type said struct {
	Content     string       `json:"content"`
	Finish      string       `json:"finish"`
	Annotations []annotation `json:"annotations"`
	Tokens      int64        `json:"tokens"`
	Standalone  string       `json:"standalone"`
}

type refused struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Param  string `json:"param"`
	Code   string `json:"code"`
}

type seen struct {
	Models     []string `json:"models"`
	Model      string   `json:"model"` // a plan, selected by the model's name
	Answer     said     `json:"answer"`
	FollowUp   said     `json:"follow_up"`
	Stream     said     `json:"stream"`
	Tools      refused  `json:"tools"`
	NoModel    refused  `json:"no_model"`
	NoModelToo refused  `json:"no_model_streamed"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: OPENAI_BASE_URL=... OPENAI_API_KEY=... chat MODEL QUESTION FOLLOW-UP")
		os.Exit(2)
	}
	out, err := use(context.Background(), openai.NewClient(), os.Args[1], os.Args[2], os.Args[3])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func use(ctx context.Context, client openai.Client, model, question, followUp string) (seen, error) {
	var out seen
	models := client.Models.ListAutoPaging(ctx)
	for models.Next() {
		out.Models = append(out.Models, models.Current().ID)
	}
	if err := models.Err(); err != nil {
		return out, fmt.Errorf("list models: %w", err)
	}
	retrieved, err := client.Models.Get(ctx, model+"/bm25")
	if err != nil {
		return out, fmt.Errorf("retrieve a model: %w", err)
	}
	out.Model = retrieved.ID
	asked := openai.ChatCompletionNewParams{Model: model, Temperature: openai.Float(0.2), User: openai.String("test"),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage(question)}}
	answer, err := client.Chat.Completions.New(ctx, asked)
	if err != nil {
		return out, fmt.Errorf("ask: %w", err)
	}
	out.Answer = told(answer)

	asked.Messages = append(asked.Messages, answer.Choices[0].Message.ToParam(), openai.UserMessage(followUp))
	answer, err = client.Chat.Completions.New(ctx, asked)
	if err != nil {
		return out, fmt.Errorf("ask a follow-up: %w", err)
	}
	out.FollowUp = told(answer)

	asked.Messages = asked.Messages[:2]
	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(ctx, asked)
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Usage.TotalTokens > 0 {
			out.Stream.Tokens = chunk.Usage.TotalTokens
		}
		for _, c := range chunk.Choices {
			out.Stream.Content += c.Delta.Content
			if c.FinishReason != "" {
				out.Stream.Finish = c.FinishReason
			}
			var delta struct{ Annotations []cited } // the client's type of a delta has no annotations
			if err := json.Unmarshal([]byte(c.Delta.RawJSON()), &delta); err != nil {
				return out, fmt.Errorf("read a delta: %w", err)
			}
			for _, a := range delta.Annotations {
				out.Stream.Annotations = append(out.Stream.Annotations, annotation{a.URLCitation.StartIndex, a.URLCitation.EndIndex, a.URLCitation.Title, a.URLCitation.URL})
			}
		}
	}
	if err := stream.Err(); err != nil {
		return out, fmt.Errorf("ask for a stream: %w", err)
	}

	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	withTools := asked
	withTools.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "look"})}
	_, err = client.Chat.Completions.New(ctx, withTools)
	out.Tools = refusal(err)
	asked.Model = "nowhere"
	_, err = client.Chat.Completions.New(ctx, asked)
	out.NoModel = refusal(err)
	missing := client.Chat.Completions.NewStreaming(ctx, asked)
	for missing.Next() {
	}
	out.NoModelToo = refusal(missing.Err())
	return out, nil
}

// cited is an annotation of a delta.
type cited struct {
	URLCitation struct {
		StartIndex int64 `json:"start_index"`
		EndIndex   int64 `json:"end_index"`
		Title, URL string
	} `json:"url_citation"`
}

func told(c *openai.ChatCompletion) said {
	choice := c.Choices[0]
	out := said{Content: choice.Message.Content, Finish: choice.FinishReason, Tokens: c.Usage.TotalTokens}
	for _, a := range choice.Message.Annotations {
		out.Annotations = append(out.Annotations, annotation{a.URLCitation.StartIndex, a.URLCitation.EndIndex, a.URLCitation.Title, a.URLCitation.URL})
	}
	var more struct {
		Standalone string `json:"standalone_question"`
	}
	_ = json.Unmarshal([]byte(c.JSON.ExtraFields["sluice"].Raw()), &more) // absent in other servers' replies
	out.Standalone = more.Standalone
	return out
}

func refusal(err error) refused {
	var e *openai.Error
	if !errors.As(err, &e) {
		return refused{Type: fmt.Sprint(err)}
	}
	return refused{e.StatusCode, e.Type, e.Param, e.Code}
}
