package llm

// The provider "openai": any server with OpenAI's chat completions API (OpenAI, vLLM, Ollama).
// Retrieved text is sent as fenced data. The quotes of a reply are found again in the passages or
// dropped.

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

// OpenAIOptions name the server and the model, and bound the calls.
type OpenAIOptions struct {
	BaseURL   string // "https://api.openai.com/v1/" when empty
	Key       string // may be empty if the server needs none
	Model     string
	Timeout   time.Duration // of one completion, retries included; 0: 60 s
	MaxTokens int           // of an answer; 0: 800
	// ReasoningTokens are what the model may use for reasoning, in addition to MaxTokens.
	ReasoningTokens int
	Format          string        // how the model is held to JSON; FormatAuto when empty
	Pause           time.Duration // before the first retry; 0: 500 ms
}

// Formats of replies that a server can be asked for.
const (
	FormatAuto   = "auto"        // the strictest that the server accepts
	FormatObject = "json_object" // any JSON object
	FormatSchema = "json_schema" // an object of the reply's JSON Schema
	FormatText   = "text"        // no constraint
)

const openAIAddress = "https://api.openai.com/v1/"

// OpenAI is the provider "openai".
type OpenAI struct {
	chatProvider
	official    bool // OpenAI's own server
	format      atomic.Pointer[string]
	negotiating atomic.Bool // until the server has accepted a format, with FormatAuto
	chat        openai.ChatCompletionService
	transport   *http.Transport
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
		return nil, schema.Invalid("SLUICE_LLM_FORMAT", "there is no format %q; the formats are %s, %s, %s and %s", o.Format, FormatAuto, FormatSchema, FormatObject, FormatText)
	}
	at, err := newEndpoint(endpoint{address: o.BaseURL, model: o.Model, timeout: o.Timeout,
		keySetting: "SLUICE_LLM_API_KEY", urlSetting: "SLUICE_LLM_BASE_URL", modelSetting: "SLUICE_LLM_MODEL"}, openAIAddress)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL), option.WithHTTPClient(&http.Client{Transport: otelhttp.NewTransport(transport)}),
		option.WithMaxRetries(0), // all providers share one retry policy
	}
	if o.Key != "" {
		options = append(options, option.WithAPIKey(o.Key))
	}
	p := &OpenAI{chatProvider: chatProvider{endpoint: at, maxTokens: o.MaxTokens, reasoning: o.ReasoningTokens, forms: o.Format == FormatSchema || o.Format == FormatAuto, retry: retryTransient[modelReply](o.Pause)},
		official: o.BaseURL == openAIAddress, chat: openai.NewChatCompletionService(options...), transport: transport}
	p.api = p
	if o.Format == FormatAuto {
		o.Format = FormatSchema
		p.negotiating.Store(true)
	}
	p.format.Store(&o.Format)
	return p, nil
}

// Name implements Provider.
func (*OpenAI) Name() string { return "openai" }

// Close drops idle connections.
func (p *OpenAI) Close() { p.transport.CloseIdleConnections() }

// looserFormat has, for each format that a server may reject, the next looser one.
var looserFormat = map[string]string{FormatSchema: FormatObject, FormatObject: FormatText}

// complete implements completer. A server that rejects the first request may not support its
// format. It is asked again with looser formats, and from then on with the one that it accepts.
func (p *OpenAI) complete(ctx context.Context, messages []message, want replyBounds, onDelta func(string)) (modelReply, error) {
	format := *p.format.Load()
	reply, err := p.completeInFormat(ctx, format, messages, want, onDelta)
	first := err
	for p.negotiating.Load() && isFormatRejected(err) && looserFormat[format] != "" {
		format = looserFormat[format]
		reply, err = p.completeInFormat(ctx, format, messages, want, onDelta)
	}
	if err == nil && p.negotiating.CompareAndSwap(true, false) {
		p.format.Store(&format)
	}
	if isFormatRejected(err) {
		return modelReply{}, p.explain(ctx, first) // the format was not at fault
	}
	return reply, err
}

// isFormatRejected reports whether a server rejected the request as malformed.
func isFormatRejected(err error) bool {
	var api *openai.Error
	return errors.As(err, &api) && (api.StatusCode == http.StatusBadRequest || api.StatusCode == http.StatusUnprocessableEntity)
}

// completeInFormat makes a call with a response format. If the server rejects the request, the
// error is the client library's, unchanged.
func (p *OpenAI) completeInFormat(ctx context.Context, format string, messages []message, want replyBounds, onDelta func(string)) (modelReply, error) {
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
	if p.official { // its newer models reject max_tokens and a temperature other than the default
		params.MaxCompletionTokens = openai.Int(int64(want.tokens))
	} else {
		params.MaxTokens = openai.Int(int64(want.tokens))
		params.Temperature = openai.Float(0)
	}
	if onDelta != nil {
		return p.completeStreaming(ctx, params, onDelta)
	}
	reply, err := p.chat.New(ctx, params)
	if isFormatRejected(err) {
		return modelReply{}, err
	}
	if err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	if len(reply.Choices) == 0 {
		return modelReply{}, p.malformedReply("gave a completion without choices")
	}
	return modelReply{content: reply.Choices[0].Message.Content, cut: reply.Choices[0].FinishReason == "length",
		input: int(reply.Usage.PromptTokens), output: int(reply.Usage.CompletionTokens)}, nil
}

// completeStreaming makes a call whose reply is streamed to onDelta.
func (p *OpenAI) completeStreaming(ctx context.Context, params openai.ChatCompletionNewParams, onDelta func(string)) (modelReply, error) {
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
			onDelta(choice.Delta.Content)
		}
		if choice.FinishReason != "" {
			finished, out.cut = true, choice.FinishReason == "length"
		}
	}
	if err := stream.Err(); isFormatRejected(err) {
		return modelReply{}, err
	} else if err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	if !finished {
		return modelReply{}, p.malformedReply("broke off its reply")
	}
	out.content = string(content)
	return out, nil
}

// explain turns an error of a call into one that says what to do about it.
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
		return p.statusError(api.StatusCode, header, api.Message)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return p.malformedReply("broke off its reply")
	case errors.As(err, &network):
		return p.unreachable(errors.Unwrap(err))
	}
	return p.malformedReply("gave a reply that is not a completion: %v", err)
}
