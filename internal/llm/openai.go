package llm

// The provider "openai": any server that speaks OpenAI's chat completions
// (OpenAI, vLLM, Ollama). Retrieved text goes in as fenced data; what comes back
// is parsed, and its quotes are found again in the passages or dropped.

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/sluice-rag/sluice/schema"
)

// OpenAIOptions say which server and model answer.
type OpenAIOptions struct {
	BaseURL   string // "https://api.openai.com/v1/" when empty
	Key       string // may be empty for servers that ask for none
	Model     string
	Timeout   time.Duration // of one completion, further tries included; 0: 60 s
	MaxTokens int           // of an answer; 0: 800
	// ReasoningTokens are those that the model may think with besides.
	ReasoningTokens int
	Format          string        // how it is held to JSON: FormatAuto when empty
	Pause           time.Duration // before the first further try; 0: 500 ms
}

// How a server is asked to hold a model to JSON.
const (
	FormatAuto   = "auto"        // as the server can: the first that it takes of those below
	FormatObject = "json_object" // any object
	FormatSchema = "json_schema" // the form of the reply
	FormatText   = "text"        // not at all
)

const openAIAddress = "https://api.openai.com/v1/"

// OpenAI is the provider "openai".
type OpenAI struct {
	dialogue
	official  bool // OpenAI's own server
	format    atomic.Pointer[string]
	seeking   atomic.Bool // format is to be the strictest that the server takes, and none was taken yet
	chat      openai.ChatCompletionService
	transport *http.Transport
}

var _ Streamer = (*OpenAI)(nil)

// NewOpenAI checks the options and makes the provider.
func NewOpenAI(o OpenAIOptions) (*OpenAI, error) {
	if o.BaseURL == "" {
		o.BaseURL = openAIAddress
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = defaultMaxTokens
	}
	switch o.Format {
	case "":
		o.Format = FormatAuto
	case FormatAuto, FormatObject, FormatSchema, FormatText:
	default:
		return nil, schema.Invalid("SLUICE_LLM_FORMAT", "there is no format %q; there are %s, %s, %s and %s", o.Format, FormatAuto, FormatSchema, FormatObject, FormatText)
	}
	at, err := newEndpoint(endpoint{address: o.BaseURL, model: o.Model, timeout: o.Timeout,
		keySetting: "SLUICE_LLM_API_KEY", urlSetting: "SLUICE_LLM_BASE_URL", modelSetting: "SLUICE_LLM_MODEL"}, openAIAddress)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL), option.WithHTTPClient(&http.Client{Transport: otelhttp.NewTransport(transport)}),
		option.WithMaxRetries(0), // tries are counted in one place, for all providers
	}
	if o.Key != "" {
		options = append(options, option.WithAPIKey(o.Key))
	}
	p := &OpenAI{dialogue: dialogue{endpoint: at, maxTokens: o.MaxTokens, reasoning: o.ReasoningTokens, forms: o.Format == FormatSchema || o.Format == FormatAuto, retry: retryPassing[modelReply](o.Pause)},
		official: o.BaseURL == openAIAddress, chat: openai.NewChatCompletionService(options...), transport: transport}
	p.speaker = p
	if o.Format == FormatAuto {
		o.Format = FormatSchema
		p.seeking.Store(true)
	}
	p.format.Store(&o.Format)
	return p, nil
}

// Name implements Provider.
func (*OpenAI) Name() string { return "openai" }

// Close drops idle connections.
func (p *OpenAI) Close() { p.transport.CloseIdleConnections() }

// looser are the formats that a server may take which refuses one.
var looser = map[string]string{FormatSchema: FormatObject, FormatObject: FormatText}

// complete implements speaker. A server that refuses the first request may know nothing of its
// format: it is asked again with a looser one, and from then on with what it took.
func (p *OpenAI) complete(ctx context.Context, messages []message, want expected, piece func(string)) (modelReply, error) {
	format := *p.format.Load()
	said, err := p.completeInFormat(ctx, format, messages, want, piece)
	first := err
	for p.seeking.Load() && refusedForm(err) && looser[format] != "" {
		format = looser[format]
		said, err = p.completeInFormat(ctx, format, messages, want, piece)
	}
	if err == nil && p.seeking.CompareAndSwap(true, false) {
		p.format.Store(&format)
	}
	if refusedForm(err) {
		return modelReply{}, p.explain(ctx, first) // it was not the format
	}
	return said, err
}

// refusedForm reports whether a server called the request itself wrong.
func refusedForm(err error) bool {
	var api *openai.Error
	return errors.As(err, &api) && (api.StatusCode == http.StatusBadRequest || api.StatusCode == http.StatusUnprocessableEntity)
}

// completeInFormat makes a call with a response format. The error of a request that the server
// rejects is the client's.
func (p *OpenAI) completeInFormat(ctx context.Context, format string, messages []message, want expected, piece func(string)) (modelReply, error) {
	params := openai.ChatCompletionNewParams{Model: p.model}
	switch format {
	case FormatObject:
		object := shared.NewResponseFormatJSONObjectParam()
		params.ResponseFormat.OfJSONObject = &object
	case FormatSchema:
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "reply", Strict: openai.Bool(true), Schema: json.RawMessage(want.form)}}
	}
	for _, m := range messages {
		switch m.role {
		case roleSystem:
			params.Messages = append(params.Messages, openai.SystemMessage(m.content))
		case roleAssistant:
			params.Messages = append(params.Messages, openai.AssistantMessage(m.content))
		default:
			params.Messages = append(params.Messages, openai.UserMessage(m.content))
		}
	}
	if p.official { // its newer models refuse the old name and any temperature of their own
		params.MaxCompletionTokens = openai.Int(int64(want.tokens))
	} else {
		params.MaxTokens = openai.Int(int64(want.tokens))
		params.Temperature = openai.Float(0)
	}
	if piece != nil {
		return p.completeStreaming(ctx, params, piece)
	}
	reply, err := p.chat.New(ctx, params)
	if refusedForm(err) {
		return modelReply{}, err
	}
	if err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	if len(reply.Choices) == 0 {
		return modelReply{}, p.broken("gave a completion without choices")
	}
	return modelReply{content: reply.Choices[0].Message.Content, cut: reply.Choices[0].FinishReason == "length",
		input: int(reply.Usage.PromptTokens), output: int(reply.Usage.CompletionTokens)}, nil
}

// completeStreaming makes a call whose reply is streamed.
func (p *OpenAI) completeStreaming(ctx context.Context, params openai.ChatCompletionNewParams, piece func(string)) (modelReply, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := p.chat.NewStreaming(ctx, params, option.WithMiddleware(completionAsEvents))
	defer stream.Close() //nolint:errcheck // all that counts has been read
	var out modelReply
	var content []byte
	finished := false
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Usage.PromptTokens > 0 {
			out.input, out.output = int(chunk.Usage.PromptTokens), int(chunk.Usage.CompletionTokens)
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		choice := chunk.Choices[0]
		if choice.Delta.Content != "" {
			content = append(content, choice.Delta.Content...)
			piece(choice.Delta.Content)
		}
		if choice.FinishReason != "" {
			finished, out.cut = true, choice.FinishReason == "length"
		}
	}
	if err := stream.Err(); refusedForm(err) {
		return modelReply{}, err
	} else if err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	if !finished {
		return modelReply{}, p.broken("broke its reply off")
	}
	out.content = string(content)
	return out, nil
}

// explain says what went wrong and what to do about it.
func (p *OpenAI) explain(ctx context.Context, err error) error {
	var network net.Error
	var api *openai.Error
	switch {
	case ctx.Err() != nil:
		return p.ended(ctx)
	case errors.As(err, &api):
		var header http.Header
		if api.Response != nil {
			header = api.Response.Header
		}
		return p.refused(api.StatusCode, header, api.Message)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return p.broken("broke its reply off")
	case errors.As(err, &network):
		return p.unreachable(errors.Unwrap(err))
	}
	return p.broken("gave a reply that is no completion: %v", err)
}
