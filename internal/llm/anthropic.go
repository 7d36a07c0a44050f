package llm

// The provider "anthropic": Anthropic's Messages API. One request gets one reply or a stream of
// events, which is little enough to do without a client library.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/sluice-rag/sluice/schema"
)

// AnthropicOptions name the server and the model, and bound the calls.
type AnthropicOptions struct {
	BaseURL   string // "https://api.anthropic.com/" when empty
	Key       string
	Model     string
	Timeout   time.Duration // of one completion, retries included; 0: 60 s
	MaxTokens int           // of an answer; 0: 800
	// ReasoningTokens are what the model may use for reasoning, in addition to MaxTokens.
	ReasoningTokens int
	Pause           time.Duration // before the first retry; 0: 500 ms
}

const (
	anthropicAddress = "https://api.anthropic.com/"
	anthropicVersion = "2023-06-01"
	// maxReplyBytes bounds a reply, maxEventBytes one event of a stream.
	maxReplyBytes = 16 << 20
	maxEventBytes = 1 << 20
)

// Anthropic is the provider "anthropic".
type Anthropic struct {
	chatProvider
	url, key      string
	client        *http.Client
	transport     *http.Transport
	noTemperature atomic.Bool // the model rejects a temperature
}

var _ Streamer = (*Anthropic)(nil)

// NewAnthropic checks the options and makes the provider.
func NewAnthropic(o AnthropicOptions) (*Anthropic, error) {
	if o.BaseURL == "" {
		o.BaseURL = anthropicAddress
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = defaultMaxTokens
	}
	at, err := newEndpoint(endpoint{address: o.BaseURL, model: o.Model, timeout: o.Timeout, keySetting: "SLUICE_LLM_ANTHROPIC_API_KEY",
		urlSetting: "SLUICE_LLM_ANTHROPIC_BASE_URL", modelSetting: "SLUICE_LLM_ANTHROPIC_MODEL"}, anthropicAddress)
	if err != nil {
		return nil, err
	}
	if o.Key == "" && o.BaseURL == anthropicAddress {
		return nil, schema.Invalid(at.keySetting, "is missing: %s needs a key", at.address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	p := &Anthropic{chatProvider: chatProvider{endpoint: at, maxTokens: o.MaxTokens, reasoning: o.ReasoningTokens, retry: retryTransient[modelReply](o.Pause)},
		url: strings.TrimSuffix(strings.TrimSuffix(o.BaseURL, "/"), "/v1") + "/v1/messages", key: o.Key,
		client: &http.Client{Transport: otelhttp.NewTransport(transport)}, transport: transport}
	p.api = p
	return p, nil
}

// Name implements Provider.
func (*Anthropic) Name() string { return "anthropic" }

// Close drops idle connections.
func (p *Anthropic) Close() { p.transport.CloseIdleConnections() }

type anthropicRequest struct {
	Model       string             `json:"model"`
	MaxTokens   int                `json:"max_tokens"`
	System      string             `json:"system"`
	Messages    []anthropicMessage `json:"messages"`
	Temperature *float64           `json:"temperature,omitempty"`
	Stream      bool               `json:"stream,omitempty"`
}

type anthropicMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type anthropicUsage struct {
	Input   int `json:"input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

func (u anthropicUsage) input() int { return u.Input + u.Written + u.Read }

type anthropicError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// complete implements completer.
func (p *Anthropic) complete(ctx context.Context, messages []message, want replyBounds, onDelta func(string)) (modelReply, error) {
	noTemperature := p.noTemperature.Load()
	out, err := p.call(ctx, messages, want.tokens, noTemperature, onDelta)
	// Newer models reject a temperature. From then on requests have none.
	var remote *schema.RemoteError
	if errors.As(err, &remote) && remote.Code == schema.CodeInternal && strings.Contains(remote.Message, "temperature") && !noTemperature {
		p.noTemperature.Store(true)
		return p.call(ctx, messages, want.tokens, true, onDelta)
	}
	return out, err
}

func (p *Anthropic) call(ctx context.Context, messages []message, tokens int, noTemperature bool, onDelta func(string)) (modelReply, error) {
	request := anthropicRequest{Model: p.model, MaxTokens: tokens, Stream: onDelta != nil}
	if !noTemperature {
		request.Temperature = new(float64)
	}
	for _, m := range messages {
		if m.role == roleSystem {
			request.System = m.content
			continue
		}
		request.Messages = append(request.Messages, anthropicMessage{Role: m.role, Content: m.content})
	}
	body, err := json.Marshal(request)
	if err != nil {
		return modelReply{}, fmt.Errorf("encode a request to %s: %w", p.address, err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return modelReply{}, fmt.Errorf("make a request to %s: %w", p.address, err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Anthropic-Version", anthropicVersion)
	if p.key != "" {
		post.Header.Set("X-Api-Key", p.key)
	}
	response, err := p.client.Do(post)
	if err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	defer response.Body.Close() //nolint:errcheck // what counts has been read
	reply := io.LimitReader(response.Body, maxReplyBytes)
	if response.StatusCode != http.StatusOK {
		var failed struct {
			Error anthropicError `json:"error"`
		}
		_ = json.NewDecoder(reply).Decode(&failed) // without a message the status says enough
		return modelReply{}, p.statusError(response.StatusCode, response.Header, failed.Error.Message)
	}
	if onDelta != nil {
		return p.readEvents(ctx, reply, onDelta)
	}
	var decoded struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		StopReason string         `json:"stop_reason"`
		Usage      anthropicUsage `json:"usage"`
	}
	if err := json.NewDecoder(reply).Decode(&decoded); err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	out := modelReply{input: decoded.Usage.input(), output: decoded.Usage.Output, cut: decoded.StopReason == "max_tokens"}
	for _, c := range decoded.Content {
		if c.Type == "text" {
			out.content += c.Text
		}
	}
	return out, nil
}

// readEvents reads a reply that comes as server-sent events.
func (p *Anthropic) readEvents(ctx context.Context, body io.Reader, onDelta func(string)) (modelReply, error) {
	var out modelReply
	var content strings.Builder
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue // the event's name, which its data repeats, or the blank line after it
		}
		var event struct {
			Type    string `json:"type"`
			Message struct {
				Usage anthropicUsage `json:"usage"`
			} `json:"message"`
			Delta struct {
				Text       string `json:"text"`
				StopReason string `json:"stop_reason"`
			} `json:"delta"`
			Usage anthropicUsage `json:"usage"`
			Error anthropicError `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return modelReply{}, p.malformedReply("sent an event that is not JSON: %v", err)
		}
		switch event.Type {
		case "message_start":
			out.input = event.Message.Usage.input()
		case "content_block_delta":
			if event.Delta.Text != "" {
				content.WriteString(event.Delta.Text)
				onDelta(event.Delta.Text)
			}
		case "message_delta":
			out.output, out.cut = event.Usage.Output, event.Delta.StopReason == "max_tokens"
		case "error":
			status := http.StatusInternalServerError
			if event.Error.Type == "rate_limit_error" {
				status = http.StatusTooManyRequests
			}
			return modelReply{}, p.statusError(status, nil, event.Error.Message)
		case "message_stop":
			out.content = content.String()
			return out, nil
		}
	}
	if err := lines.Err(); err != nil {
		return modelReply{}, p.explain(ctx, err)
	}
	return modelReply{}, p.malformedReply("broke off its reply")
}

// explain turns an error of a call into one that says what to do about it.
func (p *Anthropic) explain(ctx context.Context, err error) error {
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return p.ended(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return p.malformedReply("broke off its reply")
	case errors.As(err, &network):
		return p.unreachable(errors.Unwrap(err))
	}
	return p.malformedReply("gave a reply that is not a message: %v", err)
}
