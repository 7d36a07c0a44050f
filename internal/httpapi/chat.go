package httpapi

// Chat completions in the format of OpenAI's API: a collection is a model, the last message is a
// question, and its answer is a message whose annotations are citations. Questions are asked and
// answered as through the other routes.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// chatAsked is a request for a completion, and the base address that it was sent to.
type chatAsked struct {
	Body api.ChatRequest
	base string
}

// Resolve implements huma.Resolver.
func (a *chatAsked) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	a.base = "http://" + r.Host
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		a.base = "https://" + r.Host
	}
	return nil
}

func (s *server) routeChat() {
	tags := []string{"Chat"}
	schemas := s.api.OpenAPI().Components.Schemas
	metadata := queryBody.with(repeatRun.metadata())
	metadata[chatKey] = true
	route(s, huma.Operation{OperationID: "create-chat-completion", Metadata: metadata, Method: http.MethodPost, Path: "/v1/chat/completions", Summary: "Answer in a chat", Tags: tags,
		Description: "As OpenAI's route of this name, so that its clients and chat programs can ask: " +
			"the last message of the user is asked of the collection that `model` names, and answered as `/v1/ask` does. " +
			"Citations are `annotations` of the type `url_citation`. With `stream` the answer comes as server-sent events and ends with `[DONE]`. " +
			"Problems have the member `error`, as OpenAI's have.",
		Errors: []int{http.StatusTooManyRequests, http.StatusBadGateway},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[api.ChatCompletion](), true, "ChatCompletion")},
			eventsType: {Schema: &huma.Schema{Type: huma.TypeArray, Description: "Server-sent events without names, each with one line of JSON as data; the last has [DONE].",
				Items: schemas.Schema(reflect.TypeFor[api.ChatChunk](), true, "ChatChunk")}},
		}}},
	}, schema.ScopeQuery, s.chat)
	route(s, huma.Operation{OperationID: "list-models", Metadata: map[string]any{chatKey: true}, Method: http.MethodGet, Path: "/v1/models", Summary: "List the models of chats", Tags: tags,
		Description: "As OpenAI's route of this name: every collection, and every collection with each plan. Problems have the member `error`, as OpenAI's have."},
		schema.ScopeQuery, s.models)
	route(s, huma.Operation{OperationID: "get-model", Metadata: map[string]any{chatKey: true}, Method: http.MethodGet, Path: "/v1/models/{model}", Summary: "Show a model of chats", Tags: tags,
		Description: "As OpenAI's route of this name: a collection, or a collection, a slash, which may be written as %2F, and a plan."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Model string `path:"model" maxLength:"193"`
		}) (*reply[api.ChatModel], error) {
			return s.model(ctx, p, in.Model)
		})
	route(s, huma.Operation{OperationID: "get-model-with-plan", Metadata: map[string]any{chatKey: true}, Method: http.MethodGet, Path: "/v1/models/{collection}/{plan}", Summary: "Show a model of chats that has a plan", Tags: tags,
		Description: "For clients that do not write the slash as %2F."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			OfPlan
		}) (*reply[api.ChatModel], error) {
			return s.model(ctx, p, in.Collection+"/"+in.Plan)
		})
}

func (s *server) chat(ctx context.Context, p schema.Principal, in *chatAsked) (*streamedReply, error) {
	q, err := chatQuery(in.Body)
	if err != nil {
		return nil, err
	}
	c := completion{model: in.Body.Model, base: in.base, created: time.Now().Unix()}
	w, err := s.answer(ctx, p, q, answerFormat{streams: in.Body.Stream, document: c.document, answerWriter: func(out *events, _ schema.Principal, question uuid.UUID) answerWriter {
		return &chatWriter{completion: c, out: out, id: completionID(question), usage: in.Body.StreamOptions != nil && in.Body.StreamOptions.IncludeUsage}
	}})
	return w, ofModel(err, in.Body.Model)
}

// ofModel turns an error about a collection or a plan into one about the model that names both.
func ofModel(err error, model string) error {
	var field *schema.FieldError
	if errors.Is(err, schema.ErrNotFound) || errors.As(err, &field) && field.Field == "plan" {
		return &schema.RemoteError{Code: schema.CodeNotFound, Field: "body.model",
			Message: fmt.Sprintf("model %q: not found; /v1/models lists the available models", model)}
	}
	return err
}

// models lists every collection, alone and with each plan.
func (s *server) models(ctx context.Context, p schema.Principal, _ *struct{}) (*reply[api.ChatModels], error) {
	plans, err := everyPage(func(q schema.PageQuery) ([]schema.Plan, string, error) { return s.Plans.Plans(ctx, p, q) })
	if err != nil {
		return nil, err
	}
	collections, err := everyPage(func(q schema.PageQuery) ([]schema.Collection, string, error) {
		return s.Collections.Collections(ctx, p, q)
	})
	if err != nil {
		return nil, err
	}
	out := api.ChatModels{Object: "list", Data: []api.ChatModel{}}
	for _, c := range queried(p, collections, func(c schema.Collection) uuid.UUID { return c.ID }) {
		m := chatModel(c)
		out.Data = append(out.Data, m)
		for _, plan := range plans {
			m.ID = c.Name + "/" + plan.Name
			out.Data = append(out.Data, m)
		}
	}
	return &reply[api.ChatModels]{out}, nil
}

func chatModel(c schema.Collection) api.ChatModel {
	return api.ChatModel{ID: c.Name, Object: "model", Created: c.CreatedAt.Unix(), OwnedBy: "sluice"}
}

// model returns one of the models that models lists.
func (s *server) model(ctx context.Context, p schema.Principal, id string) (*reply[api.ChatModel], error) {
	collection, plan, planned := strings.Cut(id, "/")
	c, err := s.Collections.Collection(ctx, p, collection)
	if err == nil && len(p.Collections) > 0 {
		_, err = within(p, schema.ScopeQuery, c.ID)
	}
	if err != nil {
		return nil, ofModel(err, id)
	}
	m := chatModel(c)
	if planned {
		found, err := s.Plans.Plan(ctx, p, plan)
		if err != nil {
			return nil, ofModel(err, id)
		}
		m.ID += "/" + found.Name
	}
	return &reply[api.ChatModel]{m}, nil
}

// everyPage returns all items of a paged list.
func everyPage[T any](page func(schema.PageQuery) ([]T, string, error)) ([]T, error) {
	var out []T
	q := schema.PageQuery{Limit: 500}
	for {
		items, next, err := page(q)
		if out = append(out, items...); err != nil || next == "" {
			return out, err
		}
		q.Cursor = next
	}
}

// chatQuery converts a request to a query. It returns an error if the request needs something
// unsupported.
func chatQuery(r api.ChatRequest) (api.Query, error) {
	if err := unsupported("body", r.ChatUnsupported); err != nil {
		return api.Query{}, err
	}
	if r.StreamOptions != nil && !r.Stream {
		return api.Query{}, schema.Invalid("body.stream_options", "is only allowed with stream")
	}
	var q api.Query
	q.Collection, q.Plan, _ = strings.Cut(r.Model, "/")
	var turns []schema.Turn
	var places []string
	for i, m := range r.Messages {
		place := fmt.Sprintf("body.messages[%d]", i)
		text, err := messageText(place, m)
		if err != nil {
			return api.Query{}, err
		}
		if m.Role == string(schema.RoleUser) || m.Role == string(schema.RoleAssistant) {
			turns, places = append(turns, schema.Turn{Role: schema.Role(m.Role), Content: text}), append(places, place+".content")
		}
	}
	last := len(turns) - 1
	if last < 0 || turns[last].Role != schema.RoleUser {
		return api.Query{}, schema.Invalid("body.messages", "the last message, apart from system and developer messages, must have the role user: it is the question")
	}
	q.Query, q.History = turns[last].Content, turns[:last]
	if err := schema.CheckCharacters(places[last], strings.TrimSpace(q.Query), 1, schema.MaxQuestion); err != nil {
		return api.Query{}, err
	}
	return q, checkHistory("body.messages", q.History, func(i int) string { return places[i] })
}

// messageText returns the text of a message. It refuses any other content.
func messageText(place string, m api.ChatMessage) (string, error) {
	if m.Role == "tool" || m.Role == "function" {
		return "", schema.Invalid(place+".role", "%q is not supported: there are no tools", m.Role)
	}
	for _, f := range []struct {
		name  string
		value any
	}{{"tool_calls", m.ToolCalls}, {"function_call", m.FunctionCall}, {"tool_call_id", m.ToolCallID}, {"audio", m.Audio}} {
		if !empty(f.value) {
			return "", schema.Invalid(place+"."+f.name, "is not supported; leave it out")
		}
	}
	switch content := m.Content.(type) {
	case nil:
		return "", nil
	case string:
		return content, nil
	case []any:
		var text []string
		for j, part := range content {
			object, _ := part.(map[string]any)
			part, isText := object["text"].(string)
			if object["type"] != "text" || !isText {
				return "", schema.Invalid(fmt.Sprintf("%s.content[%d]", place, j), "is not a part of type text; other types are not supported")
			}
			text = append(text, part)
		}
		return strings.Join(text, "\n"), nil
	}
	return "", schema.Invalid(place+".content", "is neither a text nor a list of parts")
}

// neutralValues has, for unsupported fields, the values that ask for nothing.
var neutralValues = map[string][]any{
	"n": {1.0}, "tool_choice": {"none", "auto"}, "function_call": {"none", "auto"}, "logprobs": {false}, "top_logprobs": {0.0},
	"response_format": {map[string]any{"type": "text"}}, "modalities": {[]any{"text"}},
}

// unsupported returns an error for the first field that asks for something unsupported.
func unsupported(place string, fields api.ChatUnsupported) error {
	values := reflect.ValueOf(fields)
	for i, f := range reflect.VisibleFields(values.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		value := values.Field(i).Interface()
		set := !empty(value)
		for _, n := range neutralValues[name] {
			set = set && !reflect.DeepEqual(value, n)
		}
		if set {
			return schema.Invalid(place+"."+name, "is not supported with this value; leave it out")
		}
	}
	return nil
}

// empty reports whether a JSON value asks for nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// completion converts an answer to OpenAI's format.
type completion struct {
	model   string
	base    string // the address of this server
	created int64
}

func completionID(question uuid.UUID) string { return "chatcmpl-" + question.String() }

func (c completion) document(a schema.Answer) any {
	return api.ChatCompletion{ID: completionID(a.ID), Object: "chat.completion", Created: c.created, Model: c.model, Usage: usageOf(a), Sluice: chatAnswer(a),
		Choices: []api.ChatChoice{{FinishReason: "stop", Message: api.ChatReply{Role: "assistant", Content: a.Answer, Annotations: c.annotations(a)}}}}
}

func usageOf(a schema.Answer) api.ChatUsage {
	return api.ChatUsage{PromptTokens: a.Usage.InputTokens, CompletionTokens: a.Usage.OutputTokens, TotalTokens: a.Usage.InputTokens + a.Usage.OutputTokens}
}

func chatAnswer(a schema.Answer) api.ChatAnswer {
	return api.ChatAnswer{QuestionID: a.ID, Question: a.Question, Standalone: a.Standalone, Supported: a.Supported, Withheld: a.Withheld,
		Notes: a.Notes, Plan: a.Plan, PlanNote: a.PlanNote}
}

// annotations returns the citations, one for each sentence that has them. A citation of no sentence
// is for the whole text. An unsupported answer has no annotations, because the nearest passages
// prove nothing.
func (c completion) annotations(a schema.Answer) []api.ChatAnnotation {
	out := []api.ChatAnnotation{}
	if !a.Supported {
		return out
	}
	cite := func(citation, start, end int) {
		at := a.Citations[citation]
		title := at.Title
		if title == "" {
			title = at.Document
		}
		out = append(out, api.ChatAnnotation{Type: "url_citation", URLCitation: api.ChatURLCitation{Title: title, URL: c.url(at),
			StartIndex: utf8.RuneCountInString(a.Answer[:start]), EndIndex: utf8.RuneCountInString(a.Answer[:end])}})
	}
	cited := make([]bool, len(a.Citations))
	for _, s := range a.Sentences {
		for _, i := range s.Citations {
			if 0 <= i && i < len(cited) && 0 <= s.Start && s.Start <= s.End && s.End <= len(a.Answer) {
				cite(i, s.Start, s.End)
				cited[i] = true
			}
		}
	}
	for i := range cited {
		if !cited[i] {
			cite(i, 0, len(a.Answer))
		}
	}
	return out
}

// url returns the address at which the back office shows a quote in its document, to users who may
// see it.
func (c completion) url(at schema.Citation) string {
	query := url.Values{"version": {at.Span.Version.String()}, "section": {at.Span.Section.String()},
		"start": {strconv.Itoa(at.Span.Start)}, "end": {strconv.Itoa(at.Span.End)}}
	return c.base + "/documents/" + at.DocumentID.String() + "?" + query.Encode()
}

// chatWriter writes only the checked answer, no pieces of it.
type chatWriter struct {
	completion
	out   *events
	id    string
	usage bool
	begun bool
}

func (t *chatWriter) chunk(choices ...api.ChatChunkChoice) api.ChatChunk {
	if choices == nil {
		choices = []api.ChatChunkChoice{}
	}
	return api.ChatChunk{ID: t.id, Object: "chat.completion.chunk", Created: t.created, Model: t.model, Choices: choices}
}

func (t *chatWriter) send(d api.ChatDelta) error {
	return t.out.send("", t.chunk(api.ChatChunkChoice{Delta: d}))
}

// progress writes the beginning of the message, once.
func (t *chatWriter) progress(context.Context, []Progress) error {
	if t.begun {
		return nil
	}
	t.begun = true
	return t.send(api.ChatDelta{Role: "assistant", Content: new("")})
}

func (t *chatWriter) final(string) error { return nil }

func (t *chatWriter) answer(a schema.Answer) error {
	if err := t.send(api.ChatDelta{Content: &a.Answer}); err != nil {
		return err
	}
	if cited := t.annotations(a); len(cited) > 0 {
		if err := t.send(api.ChatDelta{Annotations: cited}); err != nil {
			return err
		}
	}
	end, about := t.chunk(api.ChatChunkChoice{FinishReason: new("stop")}), chatAnswer(a)
	end.Sluice = &about
	if err := t.out.send("", end); err != nil {
		return err
	}
	if t.usage {
		spent, used := t.chunk(), usageOf(a)
		spent.Usage = &used
		if err := t.out.send("", spent); err != nil {
			return err
		}
	}
	return t.out.write([]byte("data: [DONE]\n\n"))
}

func (t *chatWriter) problem(m *huma.ErrorModel) error { return t.out.send("", chatProblem(m)) }
