package llm

// The provider "openai": any server that speaks OpenAI's chat completions
// (OpenAI, vLLM, Ollama). Retrieved text goes in as fenced data; what comes back
// is parsed, and its quotes are found again in the passages or dropped.

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"text/template"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

//go:embed prompts/*.txt
var promptFiles embed.FS

var prompts = template.Must(template.New("prompts").Funcs(template.FuncMap{
	"number": func(i int) int { return i + 1 },
	"line":   func(s string) string { return strings.Join(strings.Fields(s), " ") },
}).ParseFS(promptFiles, "prompts/*.txt"))

// OpenAIOptions say which server and model answer.
type OpenAIOptions struct {
	BaseURL   string // "https://api.openai.com/v1/" when empty
	Key       string // may be empty for servers that ask for none
	Model     string
	Timeout   time.Duration // of one completion, retries included; 0: 60 s
	MaxTokens int           // of an answer; 0: 800
}

const openAIAddress = "https://api.openai.com/v1/"

// OpenAI is the provider "openai".
type OpenAI struct {
	o         OpenAIOptions
	address   string // for messages: the base URL without credentials
	chat      openai.ChatCompletionService
	transport *http.Transport
}

// NewOpenAI checks the options and makes the provider.
func NewOpenAI(o OpenAIOptions) (*OpenAI, error) {
	if o.BaseURL == "" {
		o.BaseURL = openAIAddress
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, schema.Invalid("SLUICE_LLM_BASE_URL", "needs an http or https address, for example %s", openAIAddress)
	}
	if o.Model == "" {
		return nil, schema.Invalid("SLUICE_LLM_MODEL", "is missing: name the model that %s shall use", redacted(u))
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = 800
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Transport: otelhttp.NewTransport(transport)}
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL), option.WithHTTPClient(client),
		option.WithMaxRetries(2), option.WithMaxRetryDelay(2 * time.Second),
	}
	if o.Key != "" {
		options = append(options, option.WithAPIKey(o.Key))
	}
	return &OpenAI{o: o, address: redacted(u), chat: openai.NewChatCompletionService(options...), transport: transport}, nil
}

// Name implements Provider.
func (*OpenAI) Name() string { return "openai" }

// Close drops idle connections.
func (p *OpenAI) Close() { p.transport.CloseIdleConnections() }

// Complete implements Provider. A reply that is not the JSON asked for is asked
// for once more.
func (p *OpenAI) Complete(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	out := Completion{Model: p.o.Model}
	switch {
	case r.Task.Judges():
		return out, p.converse(ctx, r, "judge", &out, func(content string) (ok bool) {
			out.Scores, ok = parseScores(content, len(r.Passages), r.Task == wire.TaskFilter)
			return ok
		})
	case r.Task == wire.TaskRewrite:
		return out, p.converse(ctx, r, "rewrite", &out, func(content string) (ok bool) {
			out.Text, ok = parseRewrite(content)
			return ok
		})
	}
	return out, p.converse(ctx, r, "answer", &out, func(content string) bool {
		answer, citations, ok := parseAnswer(content)
		if !ok {
			return false
		}
		out.Text = answer
		for _, c := range citations {
			if q, ok := anchor(r.Passages, int(c.Passage)-1, c.Quote); ok {
				out.Quotes = append(out.Quotes, q)
			}
		}
		return true
	})
}

// converse has the prompts of that name answered until read takes the reply, and
// counts tokens in out. A reply that it does not take is asked for once more.
func (p *OpenAI) converse(ctx context.Context, r wire.LLMRequest, name string, out *Completion, read func(content string) bool) error {
	system, err := prompt(name+"_system.txt", r)
	if err != nil {
		return err
	}
	user, err := prompt(name+"_user.txt", struct {
		wire.LLMRequest
		Mark string
	}{r, rand.Text()[:12]})
	if err != nil {
		return err
	}
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(user)}
	for range 2 {
		content, err := p.chatOnce(ctx, messages, out)
		if err != nil {
			return err
		}
		if read(content) {
			return nil
		}
		repair, err := prompt("repair_user.txt", nil)
		if err != nil {
			return err
		}
		messages = append(messages, openai.AssistantMessage(content), openai.UserMessage(repair))
	}
	return &schema.RemoteError{Code: schema.CodeInternal, Message: fmt.Sprintf(
		"model %s did not answer in the JSON form that it was asked for, twice: choose a model that can (SLUICE_LLM_MODEL)", p.o.Model)}
}

// chatOnce makes one call and adds its tokens to out.
func (p *OpenAI) chatOnce(ctx context.Context, messages []openai.ChatCompletionMessageParamUnion, out *Completion) (string, error) {
	object := shared.NewResponseFormatJSONObjectParam()
	params := openai.ChatCompletionNewParams{
		Model: p.o.Model, Messages: messages, Temperature: openai.Float(0),
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &object},
	}
	if p.o.BaseURL == openAIAddress { // its newer models refuse the old name and any temperature of their own
		params.MaxCompletionTokens = openai.Int(int64(p.o.MaxTokens))
		params.Temperature = openai.ChatCompletionNewParams{}.Temperature
	} else {
		params.MaxTokens = openai.Int(int64(p.o.MaxTokens))
	}
	reply, err := p.chat.New(ctx, params)
	if err != nil {
		return "", p.explain(ctx, err)
	}
	if len(reply.Choices) == 0 {
		return "", &schema.RemoteError{Code: schema.CodeUnavailable, Message: p.address + " gave a completion without choices"}
	}
	content := reply.Choices[0].Message.Content
	if in := int(reply.Usage.PromptTokens); in > 0 {
		out.InputTokens += in
		out.OutputTokens += int(reply.Usage.CompletionTokens)
	} else { // a server that does not count
		for _, m := range messages {
			if s, ok := m.GetContent().AsAny().(*string); ok {
				out.InputTokens += text.CountTokens(*s)
			}
		}
		out.OutputTokens += text.CountTokens(content)
	}
	return content, nil
}

// explain says what went wrong and what to do about it.
func (p *OpenAI) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &schema.RemoteError{Code: schema.CodeDeadline, Message: fmt.Sprintf(
			"model %s at %s took over %s: raise SLUICE_LLM_TIMEOUT or use a faster model", p.o.Model, p.address, p.o.Timeout)}
	}
	var network net.Error
	var api *openai.Error
	switch {
	case !errors.As(err, &api) && errors.As(err, &network):
		return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
			"no answer from %s: check that it runs and SLUICE_LLM_BASE_URL (%v)", p.address, errors.Unwrap(err))}
	case api == nil:
		return fmt.Errorf("read the completion of %s: %w", p.address, err)
	}
	said := strings.TrimSpace(api.Message)
	switch status := api.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &schema.RemoteError{Code: schema.CodeInternal, Message: fmt.Sprintf(
			"%s refused the key (HTTP %d): check SLUICE_LLM_API_KEY", p.address, status)}
	case status == http.StatusNotFound:
		return &schema.RemoteError{Code: schema.CodeInternal, Message: fmt.Sprintf(
			"%s has no model %q, or is no such API (HTTP 404): check SLUICE_LLM_MODEL and SLUICE_LLM_BASE_URL", p.address, p.o.Model)}
	case status == http.StatusTooManyRequests:
		return &schema.RemoteError{Code: schema.CodeOverloaded, Message: fmt.Sprintf(
			"%s takes no more requests now (HTTP 429): wait, or raise the limit of the account", p.address)}
	case status >= 500:
		return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
			"%s failed (HTTP %d): try again later %s", p.address, status, said)}
	default:
		return &schema.RemoteError{Code: schema.CodeInternal, Message: fmt.Sprintf(
			"%s refused the request (HTTP %d): check that SLUICE_LLM_MODEL %q fits it: %s", p.address, status, p.o.Model, said)}
	}
}

// redacted is an address without its user, which may be a key, and its query.
func redacted(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery = nil, ""
	return shown.String()
}

func prompt(name string, data any) (string, error) {
	var b strings.Builder
	if err := prompts.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("write prompt %s: %w", name, err)
	}
	return b.String(), nil
}
