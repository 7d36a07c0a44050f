package e2e

// This file asks in chats by plain HTTP, as Open WebUI does.

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// marrowick are the documents of the chats.
var marrowick = map[string]string{
	"lighthouse.txt": "The lighthouse of Marrowick was built by Elspeth Tarn in 1871. It is 43 metres tall and has 212 steps – on “windy” days it is closed.",
	"ferry.txt":      "The ferry of Marrowick crosses the bay eleven times a day. A ticket for it costs four crowns.",
	"museum.txt":     "The museum of Marrowick was opened in 1954. It shows ropes, sails and the bell of a schooner.",
}

const (
	lighthouse = "Who built the lighthouse of Marrowick?"
	tall       = "How tall is it?"
	tallWhole  = "How tall is the lighthouse of Marrowick?"
)

// chatBody returns a chat request. more has further members of the body.
func chatBody(model string, more map[string]any, messages ...string) map[string]any {
	body := map[string]any{"model": model}
	var all []map[string]any
	for i, text := range messages {
		all = append(all, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	body["messages"] = all
	for name, value := range more {
		body[name] = value
	}
	return body
}

func (s *server) chat(t *testing.T, body any) api.ChatCompletion {
	t.Helper()
	return as[api.ChatCompletion](t, s.call(t, http.MethodPost, "/v1/chat/completions", body).want(t, http.StatusOK))
}

// streamed is the content of all chunks of a stream.
type streamed struct {
	Content     string
	Annotations []api.ChatAnnotation
	Finish      string
	Usage       *api.ChatUsage
	Sluice      *api.ChatAnswer
	Error       *api.ChatError
}

// chunks reads a stream, which ends with [DONE] or an error.
func chunks(t *testing.T, r reply) streamed {
	t.Helper()
	var out streamed
	if kind := r.header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%s: the stream is %q", r.request, kind)
	}
	ended := false
	for event := range strings.SplitSeq(strings.TrimSpace(string(r.body)), "\n\n") {
		data, is := strings.CutPrefix(event, "data: ")
		if strings.HasPrefix(event, ": ") || event == ":" {
			continue
		}
		if !is || ended {
			t.Fatalf("%s: the event %q", r.request, event)
		}
		if ended = data == "[DONE]"; ended {
			continue
		}
		var chunk struct {
			api.ChatChunk
			Error *api.ChatError
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v: %s", r.request, err, data)
		}
		if chunk.Error != nil {
			out.Error = chunk.Error
			continue
		}
		if chunk.Object != "chat.completion.chunk" || !strings.HasPrefix(chunk.ID, "chatcmpl-") || chunk.Choices == nil {
			t.Errorf("%s: the chunk %s", r.request, data)
		}
		if chunk.Usage != nil {
			out.Usage = chunk.Usage
		}
		for _, c := range chunk.Choices {
			if c.Delta.Content != nil {
				out.Content += *c.Delta.Content
			}
			out.Annotations = append(out.Annotations, c.Delta.Annotations...)
			if c.FinishReason != nil {
				out.Finish, out.Sluice = *c.FinishReason, chunk.Sluice
			}
		}
	}
	if ended == (out.Error != nil) {
		t.Errorf("%s: the stream ends with %s", r.request, r.body)
	}
	return out
}

// chatRefused checks that the reply is an error of OpenAI's format that names the parameter.
func (r reply) chatRefused(t *testing.T, status int, param, code string) {
	t.Helper()
	r.problem(t, status, "")
	e := as[struct{ Error *api.ChatError }](t, r).Error
	if e == nil || e.Message == "" || e.Type == "" {
		t.Fatalf("%s: the error is %s", r.request, r.body)
	}
	if got := value(e.Param); got != param {
		t.Errorf("%s: the error is about %q, not %q: %s", r.request, got, param, r.body)
	}
	if got := value(e.Code); code != "" && got != code {
		t.Errorf("%s: the error's code is %q, not %q", r.request, got, code)
	}
	if param != "" && !strings.Contains(e.Message, param) {
		t.Errorf("%s: the message %q does not name %s", r.request, e.Message, param)
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func testChat(t *testing.T, s *server) {
	s.sluice(t, "ingest", write(t, marrowick), "-c", "marrowick", "--wait").ok(t)
	t.Run("Models", func(t *testing.T) { testChatModels(t, s) })
	t.Run("Answers", func(t *testing.T) { testChatAnswers(t, s) })
	t.Run("Refused", func(t *testing.T) { testChatRefused(t, s) })
	t.Run("History", func(t *testing.T) { testHistory(t, s) })
	t.Run("OpenWebUI", func(t *testing.T) { testOpenWebUI(t, s) })
	t.Run("Labels", func(t *testing.T) { testChatLabels(t, s) })
	t.Run("GoClient", func(t *testing.T) { testGoClient(t, s) })
	t.Run("Command", func(t *testing.T) { testChatCommand(t, s) })
}

func testChatModels(t *testing.T, s *server) {
	models := as[api.ChatModels](t, s.call(t, http.MethodGet, "/v1/models", nil).want(t, http.StatusOK))
	var ids []string
	for _, m := range models.Data {
		ids = append(ids, m.ID)
		if m.Object != "model" || m.Created == 0 {
			t.Errorf("the model %+v", m)
		}
	}
	if models.Object != "list" || !containsAll(strings.Join(ids, "\n")+"\n", []string{"marrowick\n", "marrowick/bm25\n", "marrowick/funnelrag\n"}) {
		t.Errorf("the models are %v", ids)
	}
	for _, path := range []string{"marrowick/bm25", "marrowick%2Fbm25"} {
		if m := as[api.ChatModel](t, s.call(t, http.MethodGet, "/v1/models/"+path, nil).want(t, http.StatusOK)); m.ID != "marrowick/bm25" || m.Created == 0 {
			t.Errorf("%s is %+v", path, m)
		}
	}
	for _, path := range []string{"marrowick", "marrowick/bm25", "no-such-model"} {
		want := http.StatusOK
		if path == "no-such-model" {
			want = http.StatusNotFound
		}
		s.call(t, http.MethodGet, "/v1/models/"+path, nil).want(t, want)
	}
	s.call(t, http.MethodGet, "/v1/models/marrowick/no-such-plan", nil).chatRefused(t, http.StatusNotFound, "model", "model_not_found")
	s.withKey("wrong").call(t, http.MethodGet, "/v1/models", nil).chatRefused(t, http.StatusUnauthorized, "", "invalid_api_key")

	// Another tenant does not see the collection as a model.
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "chat-other", "--json").ok(t))
	other := s.withKey(made.APIKey)
	if got := as[api.ChatModels](t, other.call(t, http.MethodGet, "/v1/models", nil).want(t, http.StatusOK)); len(got.Data) != 0 {
		t.Errorf("another tenant's models are %+v", got)
	}
	for _, model := range []string{"marrowick", "marrowick/bm25"} {
		other.call(t, http.MethodGet, "/v1/models/"+model, nil).chatRefused(t, http.StatusNotFound, "model", "model_not_found")
		for _, stream := range []bool{false, true} {
			other.call(t, http.MethodPost, "/v1/chat/completions", chatBody(model, map[string]any{"stream": stream}, lighthouse)).
				chatRefused(t, http.StatusNotFound, "model", "model_not_found")
		}
	}
}

func testChatAnswers(t *testing.T, s *server) {
	got := s.chat(t, chatBody("marrowick", map[string]any{"temperature": 0, "user": "ada", "metadata": map[string]any{"a": "b"}, "max_tokens": 1, "n": 1}, lighthouse))
	plain := ask(t, s, "marrowick", lighthouse)
	m := got.Choices[0].Message
	if got.Object != "chat.completion" || got.Model != "marrowick" || got.Choices[0].FinishReason != "stop" || m.Role != "assistant" || m.Content != plain.Answer ||
		got.Usage.TotalTokens != got.Usage.PromptTokens+got.Usage.CompletionTokens || !got.Sluice.Supported || got.Sluice.Plan != plain.Plan {
		t.Errorf("the chat says %+v, and ask %+v", got, plain)
	}
	s.cited(t, m.Content, m.Annotations, "Elspeth Tarn")
	if kept := as[schema.AskedQuestion](t, s.call(t, http.MethodGet, "/v1/questions/"+got.Sluice.QuestionID.String(), nil).want(t, http.StatusOK)); kept.Question != lighthouse {
		t.Errorf("what is kept is %+v", kept)
	}
	with := s.chat(t, chatBody("marrowick/bm25", nil, lighthouse))
	if with.Sluice.Plan != "bm25" || with.Model != "marrowick/bm25" {
		t.Errorf("with a plan: %+v", with)
	}
	// Positions count characters, not bytes: the text has characters of several bytes.
	windy := s.chat(t, chatBody("marrowick", nil, "When is the lighthouse closed, and how many steps does the lighthouse of Marrowick have?"))
	s.cited(t, windy.Choices[0].Message.Content, windy.Choices[0].Message.Annotations, "windy")

	stream := chunks(t, s.call(t, http.MethodPost, "/v1/chat/completions",
		chatBody("marrowick", map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}, lighthouse)).want(t, http.StatusOK))
	if stream.Content != m.Content || stream.Finish != "stop" || stream.Usage == nil || stream.Usage.TotalTokens != stream.Usage.PromptTokens+stream.Usage.CompletionTokens ||
		stream.Sluice == nil || !stream.Sluice.Supported {
		t.Errorf("the stream says %+v", stream)
	}
	s.cited(t, stream.Content, stream.Annotations, "Elspeth Tarn")
	if without := chunks(t, s.call(t, http.MethodPost, "/v1/chat/completions", chatBody("marrowick", map[string]any{"stream": true}, lighthouse)).want(t, http.StatusOK)); without.Usage != nil {
		t.Errorf("usage that nobody asked for: %+v", without.Usage)
	}

	// A question that the documents do not answer gets a refusal without citations.
	no := s.chat(t, chatBody("marrowick", nil, "Which visa does a Brazilian dentist need in Japan?"))
	if c := no.Choices[0]; c.Message.Content != schema.NoAnswer || len(c.Message.Annotations) != 0 || no.Sluice.Supported || c.FinishReason != "stop" {
		t.Errorf("what is not in the documents: %+v", no)
	}

	follow := s.chat(t, chatBody("marrowick", nil, lighthouse, m.Content, tall))
	if follow.Sluice.Question != tall || follow.Sluice.Standalone != tallWhole || !strings.Contains(follow.Choices[0].Message.Content, "43") {
		t.Errorf("the follow-up: %+v", follow)
	}
}

// cited checks that annotations refer to characters of the text, one of them with the word, and
// link to the page of their document, whose text has the word.
func (s *server) cited(t *testing.T, text string, annotations []api.ChatAnnotation, word string) {
	t.Helper()
	characters := []rune(text)
	found := false
	for _, a := range annotations {
		c := a.URLCitation
		if a.Type != "url_citation" || c.Title == "" || c.StartIndex < 0 || c.StartIndex >= c.EndIndex || c.EndIndex > len(characters) {
			t.Fatalf("the annotation %+v of %q", a, text)
		}
		at, err := url.Parse(c.URL)
		if err != nil || !strings.HasPrefix(c.URL, s.url+"/documents/") {
			t.Fatalf("the citation leads to %s: %v", c.URL, err)
		}
		if page := s.withKey("").call(t, http.MethodGet, at.RequestURI(), nil, "Accept", "text/html").want(t, http.StatusOK); !strings.Contains(string(page.body), "<html") {
			t.Errorf("%s is no page: %.200s", c.URL, page.body)
		}
		sections := s.call(t, http.MethodGet, "/v1"+at.Path+"/sections?version="+at.Query().Get("version")+"&section="+at.Query().Get("section"), nil).want(t, http.StatusOK)
		found = found || strings.Contains(string(sections.body), word) && strings.Contains(string(characters[c.StartIndex:c.EndIndex]), word)
	}
	if !found {
		t.Errorf("nothing with %q is cited in %q: %+v", word, text, annotations)
	}
}

func testChatRefused(t *testing.T, s *server) {
	user := map[string]any{"role": "user", "content": lighthouse}
	long := strings.Repeat("x", schema.MaxTurn+1)
	many := slices.Repeat([]any{user}, schema.MaxTurns+2)
	large := append(slices.Repeat([]any{map[string]any{"role": "assistant", "content": long[:schema.MaxTurn]}}, schema.MaxHistory/schema.MaxTurn+1), user)
	for _, c := range []struct {
		more        map[string]any
		param, code string
	}{
		{map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}}, "tools", "unsupported_parameter"},
		{map[string]any{"n": 2}, "n", "unsupported_parameter"},
		{map[string]any{"logprobs": true}, "logprobs", "unsupported_parameter"},
		{map[string]any{"stop": []any{"."}}, "stop", "unsupported_parameter"},
		{map[string]any{"response_format": map[string]any{"type": "json_object"}}, "response_format", "unsupported_parameter"},
		{map[string]any{"modalities": []any{"text", "audio"}}, "modalities", "unsupported_parameter"},
		{map[string]any{"grammar": "x"}, "grammar", "unknown_parameter"},
		{map[string]any{"stream_options": map[string]any{"include_usage": true}}, "stream_options", ""},
		{map[string]any{"stream": "yes"}, "stream", ""},
		{map[string]any{"model": "nowhere"}, "model", "model_not_found"},
		{map[string]any{"model": "marrowick/nothing"}, "model", "model_not_found"},
		{map[string]any{"messages": []any{}}, "messages", ""},
		{map[string]any{"messages": []any{map[string]any{"role": "system", "content": "Be brief."}}}, "messages", ""},
		{map[string]any{"messages": []any{user, map[string]any{"role": "assistant", "content": "It"}}}, "messages", ""},
		{map[string]any{"messages": []any{map[string]any{"role": "user", "content": " "}}}, "messages[0].content", ""},
		{map[string]any{"messages": []any{map[string]any{"role": "user", "content": 7}}}, "messages[0].content", ""},
		{map[string]any{"messages": []any{map[string]any{"role": "robot", "content": "x"}}}, "messages[0].role", ""},
		{map[string]any{"messages": []any{map[string]any{"role": "tool", "content": "x"}, user}}, "messages[0].role", "unsupported_parameter"},
		{map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x"}}}}}},
			"messages[0].content[0]", "unsupported_parameter"},
		{map[string]any{"messages": []any{map[string]any{"role": "user", "content": long}, user}}, "messages[0].content", ""},
		{map[string]any{"messages": many}, "messages", ""},
		{map[string]any{"messages": large}, "messages", ""},
	} {
		status := http.StatusUnprocessableEntity
		if c.code == "model_not_found" {
			status = http.StatusNotFound
		}
		s.call(t, http.MethodPost, "/v1/chat/completions", chatBody("marrowick", c.more, lighthouse)).chatRefused(t, status, c.param, c.code)
	}
	s.call(t, http.MethodPost, "/v1/chat/completions", `{"model":`).problem(t, http.StatusBadRequest, "")
	// Members that are null or empty have no effect.
	s.chat(t, chatBody("marrowick", map[string]any{"tools": []any{}, "tool_choice": "none", "stop": nil, "logprobs": false, "seed": 7,
		"response_format": map[string]any{"type": "text"}, "functions": nil}, lighthouse))
}

// testHistory asks with a history through the other routes, and checks the limits of histories.
func testHistory(t *testing.T, s *server) {
	history := []schema.Turn{{Role: schema.RoleUser, Content: lighthouse}, {Role: schema.RoleAssistant, Content: "Elspeth Tarn."}}
	body := map[string]any{"collection": "marrowick", "query": tall, "history": history}
	answer := as[schema.Answer](t, s.call(t, http.MethodPost, "/v1/ask", body).want(t, http.StatusOK))
	if answer.Question != tall || answer.Standalone != tallWhole || !strings.Contains(answer.Answer, "43") {
		t.Errorf("ask: %+v", answer)
	}
	found := as[api.SearchResult](t, s.call(t, http.MethodPost, "/v1/search", body).want(t, http.StatusOK))
	if found.Query != tall || found.Standalone != tallWhole || len(found.Passages) == 0 || found.Passages[0].ExternalID != "lighthouse.txt" {
		t.Errorf("search: %+v", found)
	}
	job := as[schema.Job](t, s.call(t, http.MethodPost, "/v1/jobs", body).want(t, http.StatusAccepted))
	if job = awaitJob(t, s, job); job.Question != tall || job.Result == nil || job.Result.Question != tall || job.Result.Standalone != tallWhole || job.Result.Answer != answer.Answer {
		t.Errorf("job: %+v", job)
	}
	kept := as[schema.AskedQuestion](t, s.call(t, http.MethodGet, "/v1/questions/"+answer.ID.String(), nil).want(t, http.StatusOK))
	if kept.Question != tall || kept.Result == nil || kept.Result.Standalone != tallWhole {
		t.Errorf("what is kept: %+v", kept)
	}
	// A question that needs no history is not rewritten.
	body["query"] = "When was the museum of Marrowick opened?"
	if whole := as[schema.Answer](t, s.call(t, http.MethodPost, "/v1/ask", body).want(t, http.StatusOK)); whole.Standalone != "" || !strings.Contains(whole.Answer, "1954") {
		t.Errorf("a question that is whole: %+v", whole)
	}

	long := strings.Repeat("x", schema.MaxTurn+1)
	turn := func(text string) schema.Turn { return schema.Turn{Role: schema.RoleUser, Content: text} }
	for _, path := range []string{"/v1/ask", "/v1/search", "/v1/jobs"} {
		for _, c := range []struct {
			history any
			field   string
		}{
			{slices.Repeat(history, schema.MaxTurns/2+1), "history"},
			{[]schema.Turn{turn("a"), turn(long)}, "history[1].content"},
			{slices.Repeat([]schema.Turn{turn(long[:schema.MaxTurn])}, schema.MaxHistory/schema.MaxTurn+1), "history"},
			{[]any{map[string]any{"role": "system", "content": "x"}}, "history[0].role"},
			{[]any{map[string]any{"role": "user", "content": "x", "name": "y"}}, "name"},
		} {
			s.call(t, http.MethodPost, path, map[string]any{"collection": "marrowick", "query": tall, "history": c.history}).
				problem(t, http.StatusUnprocessableEntity, c.field)
		}
	}
}

// testOpenWebUI sends requests like those that releases of Open WebUI send, with another model.
func testOpenWebUI(t *testing.T, s *server) {
	send := func(name string) reply {
		t.Helper()
		body, err := os.ReadFile(filepath.Join("testdata", "chat", name))
		if err != nil {
			t.Fatal(err)
		}
		return s.call(t, http.MethodPost, "/v1/chat/completions", strings.ReplaceAll(string(body), "MODEL", "marrowick")).want(t, http.StatusOK)
	}
	for name, word := range map[string]string{"open-webui-question.json": "Elspeth Tarn", "open-webui-follow-up.json": "43"} {
		got := chunks(t, send(name))
		if !strings.Contains(got.Content, word) || got.Usage == nil || got.Finish != "stop" {
			t.Errorf("%s: %+v", name, got)
		}
		s.cited(t, got.Content, got.Annotations, word)
	}
	// Open WebUI asks a language model for a title. Sluice gives an answer in the right format.
	title := as[api.ChatCompletion](t, send("open-webui-title.json"))
	if len(title.Choices) != 1 || title.Choices[0].Message.Content == "" {
		t.Errorf("a title: %+v", title)
	}
}

// testChatLabels asks for a document with a label, and changes the label.
func testChatLabels(t *testing.T, s *server) {
	key := func(name string, groups ...string) *server {
		args := []string{"keys", "create", name, "--scope", "query", "--json"}
		for _, g := range groups {
			args = append(args, "--group", g)
		}
		return s.withKey(into[api.KeyCreated](t, s.sluice(t, args...).ok(t)).APIKey)
	}
	s.sluice(t, "ingest", write(t, map[string]string{"vault.txt": "The vault of Osterly was sealed by Quillon Dray in 1902."}), "-c", "osterly", "--label", "keepers", "--wait").ok(t)
	keeper, stranger := key("keeper", "keepers"), key("stranger", "visitors")
	const question, secret = "Who sealed the vault of Osterly?", "Quillon"
	requests := []map[string]any{chatBody("osterly", nil, question), chatBody("osterly", map[string]any{"stream": true}, question)}
	answered := keeper.chat(t, requests[0])
	if !strings.Contains(answered.Choices[0].Message.Content, secret) {
		t.Fatalf("the keeper is told %+v", answered)
	}
	for _, r := range requests {
		if got := stranger.call(t, http.MethodPost, "/v1/chat/completions", r).want(t, http.StatusOK); strings.Contains(string(got.body), secret) || strings.Contains(string(got.body), "vault.txt") {
			t.Errorf("a stranger is told %s", got.body)
		}
	}
	stranger.call(t, http.MethodGet, "/v1/questions/"+answered.Sluice.QuestionID.String(), nil).problem(t, http.StatusNotFound, "")
	// The keeper's follow-up is rewritten with a word of the secret. A key that manages the tenant
	// but may not see the document must not receive it.
	follow := keeper.chat(t, chatBody("osterly", nil, question, answered.Choices[0].Message.Content, "When did he seal the vault of Osterly?"))
	if !strings.Contains(follow.Sluice.Standalone, secret) || !strings.Contains(follow.Choices[0].Message.Content, "1902") {
		t.Fatalf("the keeper's follow-up: %+v", follow)
	}
	manager := s.withKey(into[api.KeyCreated](t, s.sluice(t, "keys", "create", "chat-admin", "--scope", "admin", "--json").ok(t)).APIKey)
	for _, path := range []string{"/v1/questions", "/v1/questions/" + follow.Sluice.QuestionID.String(), "/v1/jobs"} {
		if got := manager.call(t, http.MethodGet, path, nil).want(t, http.StatusOK); strings.Contains(string(got.body), secret) {
			t.Errorf("GET %s tells who may not see the document %s", path, got.body)
		}
	}

	// After the keeper loses access, no answer uses the document, and stored answers are withheld.
	id := documents(t, s, "osterly")["vault.txt"].ID.String()
	s.call(t, http.MethodPatch, "/v1/documents/"+id, map[string]any{"labels": []string{"nobody-yet"}}).want(t, http.StatusOK)
	for _, r := range requests {
		if got := keeper.call(t, http.MethodPost, "/v1/chat/completions", r).want(t, http.StatusOK); strings.Contains(string(got.body), secret) {
			t.Errorf("after the labels changed the keeper is told %s", got.body)
		}
	}
	for _, question := range []string{answered.Sluice.QuestionID.String(), follow.Sluice.QuestionID.String()} {
		if got := keeper.call(t, http.MethodGet, "/v1/questions/"+question, nil).want(t, http.StatusOK); strings.Contains(string(got.body), secret) {
			t.Errorf("the stored answer tells %s", got.body)
		}
	}
}
