package llm

// A conversation with a language model behind an API: the prompts of each task, how a reply is
// parsed, and what happens if it cannot be. The providers "openai" and "anthropic" differ only in
// how they make one call.

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/failsafe-go/failsafe-go"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

//go:embed prompts/*.txt
var promptFiles embed.FS

var prompts = template.Must(template.New("prompts").Funcs(template.FuncMap{
	"number": func(i int) int { return i + 1 },
	"label":  label,
	"letter": letter,
	"line":   line,
	"shown":  shown,
}).ParseFS(promptFiles, "prompts/*.txt"))

// Roles of messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
)

// message is one turn of a conversation; the first one is the system's.
type message struct{ role, content string }

// modelReply is a model's reply to one call.
type modelReply struct {
	content       string
	input, output int  // tokens; input is 0 when the server did not count
	cut           bool // it was cut at the token limit
}

// completer makes one call. onDelta, if not nil, gets the content as it is streamed.
type completer interface {
	complete(ctx context.Context, messages []message, want replyBounds, onDelta func(string)) (modelReply, error)
}

// replyBounds bounds a reply.
type replyBounds struct {
	form   string // its JSON Schema; empty: none is sent
	tokens int    // at most, reasoning included
}

// chatProvider is the part of a provider that all language models behind an API share.
type chatProvider struct {
	endpoint
	api       completer
	maxTokens int
	reasoning int  // what the model may use for reasoning, in addition to maxTokens
	forms     bool // requests carry the JSON Schema of the reply
	retry     failsafe.Executor[modelReply]
}

// Model is the name of the model that answers.
func (d *chatProvider) Model() string { return d.model }

// Complete implements Provider. If a reply is not the JSON asked for, the model is asked once more.
func (d *chatProvider) Complete(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	return d.complete(ctx, r, nil)
}

// Stream implements Streamer.
func (d *chatProvider) Stream(ctx context.Context, r wire.LLMRequest, onDelta func(wire.LLMDelta)) (Completion, error) {
	return d.complete(ctx, r, &answerStream{onDelta: onDelta})
}

func (d *chatProvider) complete(ctx context.Context, r wire.LLMRequest, v *answerStream) (Completion, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	out := Completion{Model: d.model}
	var err error
	switch {
	case r.Task.Judges():
		err = d.converse(ctx, r, "judge", nil, &out, func(content string) (ok bool) {
			out.Scores, ok = parseScores(content, len(r.Passages), r.Task == wire.TaskFilter)
			return ok
		})
		return out, err
	case r.Task == wire.TaskFeedback:
		err = d.converse(ctx, r, "feedback", nil, &out, func(content string) (ok bool) {
			out.Feedback, ok = parseFeedback(content)
			return ok
		})
		return out, err
	case r.Task == wire.TaskCorrectness:
		err = d.converse(ctx, r, "correctness", nil, &out, func(content string) (ok bool) {
			out.Correct, ok = parseCorrectness(content)
			return ok
		})
		return out, err
	case r.Task == wire.TaskBackground:
		err = d.converse(ctx, r, "background", v, &out, func(content string) (ok bool) {
			out.Text, ok = parseBackground(content)
			return ok
		})
		return out, err
	case r.Task == wire.TaskRewrite:
		name, member := "rewrite", "question"
		switch r.Prompt {
		case PromptPassage:
			name, member = PromptPassage, PromptPassage
		case PromptAsk:
			name = PromptAsk
		}
		err = d.converse(ctx, r, name, nil, &out, func(content string) (ok bool) {
			out.Text, ok = parseText(content, member)
			return ok
		})
		return out, err
	}
	name := "answer"
	if r.Prompt != "" && len(r.Choices) == 0 { // questions with choices have one prompt
		name = r.Prompt
	}
	err = d.converse(ctx, r, name, v, &out, func(content string) bool { return readAnswer(content, r, &out) })
	return out, err
}

// converse sends the prompts of that name until read accepts the reply, and counts the tokens in
// out. If read rejects the first reply, the model is asked once more. Of the second reply, or of
// one that was cut off, read may accept the complete part.
func (d *chatProvider) converse(ctx context.Context, r wire.LLMRequest, name string, v *answerStream, out *Completion, read func(content string) bool) error {
	system, err := prompt(name+"_system.txt", r)
	if err != nil {
		return err
	}
	user, err := prompt(name+"_user.txt", struct {
		wire.LLMRequest
		Mark string
	}{r, newMark(r)})
	if err != nil {
		return err
	}
	messages := []message{{roleSystem, system}, {roleUser, user}}
	want := replyBounds{tokens: d.tokensOf(r)}
	if d.forms {
		want.form = formOf(r)
	}
	for _, again := range []bool{false, true} {
		reply, err := d.callWithRetry(ctx, messages, want, v, out)
		if err != nil {
			return err
		}
		switch {
		case read(reply.content):
			return nil
		case (reply.cut || again) && salvage(reply.content, r.Task, read, out):
			return nil
		case reply.cut:
			return &unreadableReply{configError("model %s did not finish its reply in %d tokens: raise SLUICE_LLM_MAX_TOKENS, or SLUICE_LLM_REASONING_TOKENS for a model that reasons", d.model, want.tokens)}
		}
		repair, err := prompt("repair_user.txt", nil)
		if err != nil {
			return err
		}
		content := reply.content
		if strings.TrimSpace(content) == "" { // no API accepts an empty message
			content = "(nothing)"
		}
		messages = append(messages, message{roleAssistant, content}, message{roleUser, repair})
	}
	return &unreadableReply{configError("model %s did not answer in the JSON form that it was asked for, twice: choose a model that can (%s)", d.model, d.modelSetting)}
}

// tokensOf returns the most tokens of the reply to a request. Judgements and questions are short,
// and longer replies do not improve them.
func (d *chatProvider) tokensOf(r wire.LLMRequest) int {
	maxTokens := d.maxTokens
	switch {
	case r.Task.Judges():
		maxTokens = min(maxTokens, 100+40*len(r.Passages))
	case r.Task == wire.TaskRewrite && r.Prompt == PromptPassage:
		maxTokens = min(maxTokens, 400)
	case r.Task == wire.TaskRewrite:
		maxTokens = min(maxTokens, 300)
	case r.Task == wire.TaskFeedback:
		maxTokens = min(maxTokens, 150)
	case r.Task == wire.TaskCorrectness:
		maxTokens = min(maxTokens, 100)
	}
	return maxTokens + d.reasoning
}

// salvage passes the complete part of a reply to read. An answer is accepted only with a quote:
// otherwise it would be a refusal that the model did not give. A judgement of correctness is never
// salvaged, because what follows its first object may contradict it.
func salvage(content string, task wire.LLMTask, read func(content string) bool, out *Completion) bool {
	if task == wire.TaskCorrectness {
		return false
	}
	object, ok := closeObject(content)
	return ok && read(object) && (task != wire.TaskAnswer || len(out.Quotes) > 0)
}

// callWithRetry makes one call, with retries of transient errors, and adds its tokens to out. For a
// call that broke off or took too long it adds the tokens sent and received, because they may have
// to be paid.
func (d *chatProvider) callWithRetry(ctx context.Context, messages []message, want replyBounds, v *answerStream, out *Completion) (modelReply, error) {
	bound := 0
	if want.form != "" {
		bound = tokenBound(want.form)
	}
	for _, m := range messages {
		bound += tokenBound(m.content)
	}
	reserved := false
	reply, err := d.retry.WithContext(ctx).Get(func() (modelReply, error) {
		if !reserved {
			if err := reserve(ctx, bound, want.tokens); err != nil {
				return modelReply{}, err
			}
			reserved = true
		}
		var onDelta func(string)
		if v != nil {
			v.begin()
			onDelta = v.add
		}
		reply, err := d.api.complete(ctx, messages, want, onDelta)
		if p := (*transientError)(nil); err != nil && (ctx.Err() != nil || errors.As(err, &p) && p.begun) {
			out.InputTokens += countMessages(messages)
			if v != nil {
				out.OutputTokens += text.CountTokens(v.raw.String())
			}
			reserved = false // what was reserved is used up
		}
		return reply, err
	})
	if err != nil {
		if ctx.Err() != nil { // also if it ended between two tries
			err = d.ended(ctx)
		}
		return modelReply{}, err
	}
	if reply.input > 0 {
		out.InputTokens += reply.input
		out.OutputTokens += reply.output
	} else { // the server does not count
		out.InputTokens += countMessages(messages)
		out.OutputTokens += text.CountTokens(reply.content)
	}
	return reply, nil
}

func countMessages(messages []message) int {
	n := 0
	for _, m := range messages {
		n += text.CountTokens(m.content)
	}
	return n
}

func prompt(name string, data any) (string, error) {
	var b strings.Builder
	if err := prompts.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("write prompt %s: %w", name, err)
	}
	return b.String(), nil
}

// Defaults of the options.
const (
	defaultTimeout   = time.Minute
	defaultMaxTokens = 800
)
