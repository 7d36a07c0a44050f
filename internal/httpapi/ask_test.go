package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// scripted answers with a function of the test.
type scripted struct {
	Questions
	ask func(ctx context.Context, q schema.Query, progress func(Progress)) (schema.Answer, error)
}

func (s scripted) Ask(ctx context.Context, _ schema.Principal, q schema.Query, progress func(Progress)) (schema.Answer, error) {
	return s.ask(ctx, q, progress)
}

func (scripted) SourcesHidden(context.Context, schema.Principal, uuid.UUID) (bool, error) {
	return false, nil
}

func stage(name string, candidates int) Progress {
	return Progress{Stage: &api.StageEvent{Stage: name, Candidates: candidates}}
}

func delta(text string, restart bool) Progress {
	return Progress{Delta: &api.DeltaEvent{Text: text, Restart: restart}}
}

// askServer returns the address of a server that answers with a function.
func askServer(t *testing.T, o Options, ask func(context.Context, schema.Query, func(Progress)) (schema.Answer, error)) string {
	t.Helper()
	o.Authenticator, o.Collections, o.Questions = keysOfTenants{"k": uuid.UUID{1}}, anyCollection{}, scripted{ask: ask}
	server := httptest.NewServer(New(o))
	t.Cleanup(server.Close)
	return server.URL
}

func postAsk(t *testing.T, ctx context.Context, url, accept string, q api.Query) *http.Response {
	t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/ask", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Content-Type", "application/json")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

// eventsOf reads a stream to its end. It returns "name data" of each event, and "" for each
// heartbeat.
func eventsOf(t *testing.T, body io.Reader) []string {
	t.Helper()
	var out []string
	name := ""
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
		case "event":
			name = value
		case "data":
			out = append(out, name+" "+value)
		case "":
			if value == "" && strings.HasPrefix(lines.Text(), ":") {
				out = append(out, "")
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnAnswerIsToldWhileItIsMade(t *testing.T) {
	read := make(chan struct{})
	url := askServer(t, Options{}, func(_ context.Context, q schema.Query, progress func(Progress)) (schema.Answer, error) {
		progress(stage("retrieve", 0))
		progress(stage("generate", 8))
		progress(delta("Five", false))
		<-read // the event is sent before the answer ends
		progress(delta(" days", false))
		progress(delta("Six days.", true))
		return schema.Answer{Question: q.Text, Answer: "Six days.", Choice: len(q.Choices)}, nil
	})
	got := postAsk(t, t.Context(), url, "text/html, text/event-stream;q=0.9", api.Query{Collection: "c", Query: "How many?", Choices: []string{"five", "six"}})
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v", got.StatusCode, got.Header)
	}
	body := bufio.NewReader(got.Body)
	var first strings.Builder
	for !strings.Contains(first.String(), `"text":"Five"`) {
		line, err := body.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		first.WriteString(line)
	}
	close(read)
	all := eventsOf(t, io.MultiReader(strings.NewReader(first.String()), body))
	// Pieces that are pending together are joined.
	var text string
	var rest []string
	for _, e := range all {
		name, data, _ := strings.Cut(e, " ")
		if name != api.EventDelta {
			rest = append(rest, e)
			continue
		}
		var d api.DeltaEvent
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatal(err)
		}
		if d.Restart {
			text = ""
		}
		text += d.Text
	}
	if text != "Six days." || len(rest) != 3 || rest[0] != `stage {"stage":"retrieve"}` || rest[1] != `stage {"stage":"generate","candidates":8}` ||
		!strings.HasPrefix(rest[2], `answer {"question":"How many?","answer":"Six days."`) || !strings.Contains(rest[2], `"choice":2`) || all[len(all)-1] != rest[2] {
		t.Errorf("the text became %q, beside %q", text, rest)
	}
}

// TestWithoutAcceptTheAnswerIsADocument: without the Accept header the answer is one document, and
// there is no progress.
func TestWithoutAcceptTheAnswerIsADocument(t *testing.T) {
	url := askServer(t, Options{}, func(_ context.Context, _ schema.Query, progress func(Progress)) (schema.Answer, error) {
		if progress != nil {
			t.Error("somebody listens")
		}
		return schema.Answer{Answer: "a"}, nil
	})
	for _, accept := range []string{"", "application/json", "*/*"} {
		got := postAsk(t, t.Context(), url, accept, api.Query{Collection: "c", Query: "q"})
		var a schema.Answer
		if err := json.NewDecoder(got.Body).Decode(&a); err != nil || got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || a.Answer != "a" {
			t.Errorf("Accept %q gave %d %v %+v, %v", accept, got.StatusCode, got.Header, a, err)
		}
	}
}

func TestWhatFailsBeforeTheFirstEventIsAProblem(t *testing.T) {
	fail := errors.New("")
	url := askServer(t, Options{AskTime: time.Hour}, func(_ context.Context, _ schema.Query, progress func(Progress)) (schema.Answer, error) {
		return schema.Answer{}, fail
	})
	for _, c := range []struct {
		err    error
		status int
	}{{schema.ErrOverloaded, http.StatusServiceUnavailable}, {fmt.Errorf("ask: %w", schema.ToRemote(schema.ErrTenantOverloaded)), http.StatusTooManyRequests},
		{schema.ErrQuota, http.StatusTooManyRequests}, {schema.Invalid("plan", "is unknown"), http.StatusUnprocessableEntity}, {schema.ErrNotFound, http.StatusNotFound},
		{fmt.Errorf("ask: %w", schema.ToRemote(schema.ErrProvider)), http.StatusBadGateway},
		{&schema.RemoteError{Code: schema.CodeDeadline, Message: "too slow"}, http.StatusGatewayTimeout},
		{&schema.RemoteError{Code: schema.CodeInternal, Message: "broken"}, http.StatusInternalServerError}} {
		fail = c.err
		got := postAsk(t, t.Context(), url, "text/event-stream", api.Query{Collection: "c", Query: "q"})
		if got.StatusCode != c.status || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v gave %d %v", c.err, got.StatusCode, got.Header)
		}
		// An overload is temporary, so the reply says when to retry.
		if again := got.Header.Get("Retry-After"); (again == "1") != errors.Is(c.err, schema.ErrOverloaded) {
			t.Errorf("%v gave Retry-After %q", c.err, again)
		}
	}
	for _, choices := range [][]string{{"one"}, {"a", " "}, {"a", strings.Repeat("x", 501)}, slices.Repeat([]string{"a"}, 27)} {
		if got := postAsk(t, t.Context(), url, "text/event-stream", api.Query{Collection: "c", Query: "q", Choices: choices}); got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%d choices gave %d", len(choices), got.StatusCode)
		}
	}
}

// TestWhatFailsLaterIsAnErrorEvent: an error after the first event is the same problem document, as
// an event.
func TestWhatFailsLaterIsAnErrorEvent(t *testing.T) {
	url := askServer(t, Options{AskTime: 50 * time.Millisecond}, func(ctx context.Context, q schema.Query, progress func(Progress)) (schema.Answer, error) {
		progress(stage("generate", 0))
		switch q.Text {
		case "slow":
			<-ctx.Done()
			return schema.Answer{}, ctx.Err()
		case "panic":
			panic("on purpose")
		}
		return schema.Answer{}, schema.ErrQuota
	})
	for text, want := range map[string]string{"slow": `"status":504`, "panic": `"status":500`, "paid": `"status":429`} {
		got := postAsk(t, t.Context(), url, "text/event-stream", api.Query{Collection: "c", Query: text})
		all := eventsOf(t, got.Body)
		if last := all[len(all)-1]; got.StatusCode != http.StatusOK || !strings.HasPrefix(last, "error {") || !strings.Contains(last, want) || strings.Contains(last, "on purpose") {
			t.Errorf("%s ended %d with %s", text, got.StatusCode, last)
		}
	}
}

// TestASlowReaderBlocksNobody: a client that does not read does not block the question. It gets the
// answer in the end, and complete text or none.
func TestASlowReaderBlocksNobody(t *testing.T) {
	const pieces, size = 40_000, 500 // 20 MB: more than any buffer on the way
	answered := make(chan struct{})
	url := askServer(t, Options{}, func(_ context.Context, _ schema.Query, progress func(Progress)) (schema.Answer, error) {
		progress(stage("generate", 0))
		for range pieces {
			progress(delta(strings.Repeat("x", size), false))
		}
		close(answered)
		return schema.Answer{Answer: "the whole"}, nil
	})
	got := postAsk(t, t.Context(), url, "text/event-stream", api.Query{Collection: "c", Query: "q"})
	<-answered
	all := eventsOf(t, got.Body)
	text, void := 0, false
	for _, e := range all {
		if name, data, _ := strings.Cut(e, " "); name == api.EventDelta {
			var d api.DeltaEvent
			if err := json.Unmarshal([]byte(data), &d); err != nil {
				t.Fatal(err)
			}
			if d.Restart {
				text, void = 0, true
			}
			text += len(d.Text)
		}
	}
	if last := all[len(all)-1]; !strings.Contains(last, "the whole") || !void || text != 0 {
		t.Errorf("%d bytes of text stand, void %v; the end is %.60s", text, void, last)
	}
}

// TestAClientThatGoesEndsItsQuestion, and frees its slot.
func TestAClientThatGoesEndsItsQuestion(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	url := askServer(t, Options{TenantOpen: 1, Heartbeat: time.Millisecond}, func(ctx context.Context, q schema.Query, progress func(Progress)) (schema.Answer, error) {
		if q.Text == "again" {
			return schema.Answer{Answer: "a"}, nil
		}
		progress(stage("generate", 0))
		close(began)
		<-ctx.Done()
		close(ended)
		return schema.Answer{}, ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	got := postAsk(t, ctx, url, "text/event-stream", api.Query{Collection: "c", Query: "q"})
	<-began
	// Without events the stream has heartbeats.
	lines := bufio.NewScanner(got.Body)
	for lines.Scan() && lines.Text() != ": " {
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	if other := postAsk(t, t.Context(), url, "", api.Query{Collection: "c", Query: "again"}); other.StatusCode != http.StatusTooManyRequests {
		t.Errorf("another question while one is open gave %d", other.StatusCode)
	}
	leave()
	<-ended
	for { // its slot is free once its handler has returned
		other := postAsk(t, t.Context(), url, "", api.Query{Collection: "c", Query: "again"})
		if other.StatusCode == http.StatusOK {
			break
		}
		if other.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("after it left: %d", other.StatusCode)
		}
	}
}

func TestAFeedKeepsStagesAndBoundsText(t *testing.T) {
	f := newFeed()
	for range 3 * feedStages {
		f.add(stage("judge", 1))
	}
	f.add(delta(strings.Repeat("x", feedText), false))
	f.add(delta("x", false)) // too much
	f.add(delta("lost", false))
	waiting, over := f.drain()
	if n := len(waiting); over || n != feedStages+1 || waiting[n-1].Delta == nil || *waiting[n-1].Delta != (api.DeltaEvent{Restart: true}) {
		t.Errorf("%d wait, the last %+v", n, waiting[n-1].Delta)
	}
	f.add(delta("still lost", false))
	f.add(delta("anew", true))
	f.add(delta(", on", false))
	if waiting, _ = f.drain(); len(waiting) != 1 || *waiting[0].Delta != (api.DeltaEvent{Text: "anew, on", Restart: true}) {
		t.Errorf("after it began again: %+v", waiting)
	}
}
