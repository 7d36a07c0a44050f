package e2e

// This file is the load during faults: uploads of articles, questions as jobs, and clients that
// search, ask and list all the time.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type article struct {
	ID    string `json:"_id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// squadArticles returns articles of Wikipedia and questions about them, which are not part of the
// repository. Without them it returns nil; in continuous integration the test fails.
func squadArticles(t *testing.T) (articles []article, questions []string) {
	t.Helper()
	dir := datasetFolder(t, "squad-articles")
	if dir == "" {
		return nil, nil
	}
	articles = lines[article](t, filepath.Join(dir, "corpus.jsonl"))
	for _, q := range lines[article](t, filepath.Join(dir, "queries.jsonl")) {
		if !slices.Contains(questions, q.Text) && len(questions) < 1000 {
			questions = append(questions, q.Text)
		}
	}
	return articles, questions
}

func lines[T any](t *testing.T, path string) (out []T) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
	return out
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// crowded is the name of the load's collection.
const crowded = "articles"

// load sends requests to a server and counts the replies.
type load struct {
	server    *server
	articles  []article
	questions []string
	client    *http.Client
	stop      context.CancelFunc
	ctx       context.Context
	running   sync.WaitGroup // the probes
	sending   sync.WaitGroup // uploads and jobs

	mu      sync.Mutex
	answers map[string]map[int]int // number of replies, by request and status
	wrong   []string
	served  int  // rounds in which all requests of a probe succeeded
	away    bool // the API server is unavailable, so broken connections are allowed
	change  *sync.Cond
}

func newLoad(t *testing.T, s *server, articles []article, questions []string) *load {
	t.Helper()
	l := &load{server: s, articles: articles, questions: questions, answers: map[string]map[int]int{},
		client: &http.Client{Transport: &http.Transport{}}}
	l.change = sync.NewCond(&l.mu)
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		l.stop()
		l.sending.Wait()
		l.running.Wait()
		l.client.CloseIdleConnections()
	})
	// The collection and a first document exist before the first fault.
	s.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": crowded}).want(t, http.StatusCreated)
	l.upload(articles[0])
	for range 2 {
		l.running.Go(l.probe)
	}
	return l
}

// ask sends a request once and returns its status, 0 for a broken connection. It records as errors
// all replies except success, 429, and 503 with Retry-After, and a broken connection unless the
// request may be repeated.
func (l *load) ask(name, method, path, key string, body []byte, kind string) (status int) {
	request, err := http.NewRequestWithContext(l.ctx, method, l.server.url+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // cannot happen: this file makes the request
	}
	request.Header.Set("Authorization", "Bearer "+l.server.key)
	request.Header.Set("Content-Type", kind)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	began := time.Now()
	response, err := l.client.Do(request)
	if l.ctx.Err() != nil {
		return 0
	}
	var text []byte
	if err == nil {
		status = response.StatusCode
		text, err = io.ReadAll(io.LimitReader(response.Body, 600))
		_ = response.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers[name] == nil {
		l.answers[name] = map[int]int{}
	}
	l.answers[name][status]++
	switch {
	case l.ctx.Err() != nil:
	case err != nil && l.away:
	case err != nil && (method == http.MethodPut || key != ""): // insist repeats the request, which has no further effect
	case err != nil:
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", name, err))
	case status < 300, status == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "", status == http.StatusTooManyRequests:
	default:
		took := time.Since(began) //house:clock it is told, not waited for
		l.wrong = append(l.wrong, fmt.Sprintf("%s after %s: %d %s", name, took.Round(time.Millisecond), status, text))
	}
	return status
}

// insist repeats a request until it is answered. A broken connection, 429 and 503 are no answers.
func (l *load) insist(name, method, path, key string, body []byte, kind string) {
	for l.ctx.Err() == nil {
		status := l.ask(name, method, path, key, body, kind)
		if status != 0 && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			return
		}
		l.pause(200 * time.Millisecond)
	}
}

func (l *load) upload(a article) {
	l.insist("upload", http.MethodPut, "/v1/collections/"+crowded+"/content?"+url.Values{"external_id": {a.ID}, "title": {a.Title}}.Encode(),
		"", []byte(a.Text), "text/plain")
}

func query(text string) []byte {
	data, err := json.Marshal(api.Query{Collection: crowded, Query: text})
	if err != nil {
		panic(err) // cannot happen: a struct of strings
	}
	return data
}

// part starts part i of n of the load, and returns when some of its uploads have ended.
func (l *load) part(t *testing.T, i, n int) {
	t.Helper()
	articles := l.articles[max(len(l.articles)*i/n, 1) : len(l.articles)*(i+1)/n] // the first document exists already
	questions := l.questions[len(l.questions)*i/n : len(l.questions)*(i+1)/n]
	begun := make(chan struct{}, len(articles))
	queue := make(chan article)
	for range 4 {
		l.sending.Go(func() {
			for a := range queue {
				l.upload(a)
				begun <- struct{}{}
			}
		})
	}
	l.sending.Go(func() {
		defer close(queue)
		for _, a := range articles {
			select {
			case queue <- a:
			case <-l.ctx.Done():
				return
			}
		}
	})
	for _, q := range questions {
		l.sending.Go(func() {
			l.insist("job", http.MethodPost, "/v1/jobs", "job: "+q[:min(len(q), 200)], query(q), "application/json")
		})
	}
	for range 4 {
		select {
		case <-begun:
		case <-l.ctx.Done():
			t.Fatal("the load was stopped")
		}
	}
}

// probe sends requests until the load is stopped.
func (l *load) probe() {
	for l.ctx.Err() == nil {
		well := true
		for _, r := range []struct{ name, method, path, body string }{
			{"search", http.MethodPost, "/v1/search", string(query("Which earthquake was in Sichuan?"))},
			{"ask", http.MethodPost, "/v1/ask", string(query("Which earthquake was in Sichuan?"))},
			{"list", http.MethodGet, "/v1/collections/" + crowded + "/documents?limit=10", ""},
			{"jobs", http.MethodGet, "/v1/jobs?limit=10", ""},
		} {
			status := l.ask(r.name, r.method, r.path, "", []byte(r.body), "application/json")
			well = well && status == http.StatusOK
		}
		l.mu.Lock()
		if well {
			l.served++
			l.change.Broadcast()
		}
		l.mu.Unlock()
		l.pause(150 * time.Millisecond)
	}
}

// pause waits for a duration or until the load is stopped.
func (l *load) pause(d time.Duration) { pause(l.ctx, d) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d) //house:clock how long a fault lasts, and what is asked again
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serves waits until all requests of the probes succeed.
func (l *load) serves(t *testing.T) {
	t.Helper()
	ctx := waittest.Context(t)
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.change.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for before := l.served; l.served < before+2; l.change.Wait() {
		if ctx.Err() != nil {
			t.Fatalf("the system does not serve again: %v", l.answers)
		}
	}
}

// takeWrong returns the errors since the previous call.
func (l *load) takeWrong() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := l.wrong
	l.wrong = nil
	return wrong
}

// said returns the number of replies by status.
func (l *load) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.answers)) {
		fmt.Fprintf(&b, "%s %v ", name, l.answers[name])
	}
	return strings.TrimSpace(b.String())
}

// finish waits until all documents are ready and all jobs are answered.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.sending.Wait()
	for _, wrong := range l.takeWrong() {
		t.Error(wrong)
	}
	began := time.Now()
	waittest.Until(t, func() string {
		c := counts(t, l.server, crowded)
		if c[schema.StateReady] == int64(len(l.articles)) {
			return ""
		}
		if c[schema.StateFailed] > 0 {
			t.Fatalf("documents failed: %v: %s", c, l.server.sluice(t, "documents", "list", "-c", crowded, "--state", "failed").out)
		}
		return fmt.Sprintf("not all of %d documents are ready: %v", len(l.articles), c)
	})
	waittest.Until(t, func() string {
		states := map[schema.JobState]int{}
		for cursor := ""; ; {
			page := as[api.Page[schema.Job]](t, l.server.call(t, http.MethodGet, "/v1/jobs?limit=200&cursor="+url.QueryEscape(cursor), nil).want(t, http.StatusOK))
			for _, j := range page.Items {
				states[j.State]++
				if j.State.Final() && j.State != schema.JobAnswered {
					t.Fatalf("job %s ended as %s: %+v", j.ID, j.State, j.Reason)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if states[schema.JobAnswered] == len(l.questions) {
			return ""
		}
		return fmt.Sprintf("not all of %d jobs are answered: %v", len(l.questions), states)
	})
	l.stop()
	l.running.Wait()
	took := time.Since(began) //house:clock it is told, not waited for
	t.Logf("all was ready and answered %s after the last fault; %s", took.Round(time.Millisecond), l.said())
}
