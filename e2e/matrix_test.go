package e2e

// This file measures a matrix, interrupts it, and continues it.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/api"
)

// searches is a proxy to a server that counts the requests. It does not forward the search with the
// number stop, but waits until the client disconnects.
type searches struct {
	*httptest.Server
	stop    int
	stopped chan struct{} // closed when the search with the number stop has arrived

	mu       sync.Mutex
	requests int
	asked    []string // collection, question and plan of each search
}

func countSearches(t *testing.T, to string, stop int) *searches {
	t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	c := &searches{stop: stop, stopped: make(chan struct{})}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) }}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.mu.Lock()
		c.requests++
		if r.URL.Path != "/v1/search" {
			c.mu.Unlock()
			pass.ServeHTTP(w, r)
			return
		}
		var q api.Query
		if err := json.Unmarshal(body, &q); err != nil {
			t.Errorf("a search is %s: %v", body, err)
		}
		what := fmt.Sprintf("%s\n%s\n%s%s", q.Collection, q.Query, q.Plan, q.PlanText)
		c.asked = append(c.asked, what)
		stop := len(c.asked) == c.stop
		c.mu.Unlock()
		if stop {
			close(c.stopped)
			<-r.Context().Done()
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// take returns the requests since the previous call.
func (c *searches) take() (requests int, asked []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, asked = c.requests, c.asked
	c.requests, c.asked = 0, nil
	return requests, asked
}

// exampleSets writes the Markdown examples and their questions as the datasets that a matrix names.
func exampleSets(t *testing.T, s *server, names ...string) (root string, questions int) {
	t.Helper()
	root = t.TempDir()
	var corpus, queries, qrels strings.Builder
	line := func(b *strings.Builder, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	folder := filepath.Join(s.repository, "examples", "documents")
	for _, path := range walk(t, folder) {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			t.Fatal(err)
		}
		line(&corpus, map[string]any{"_id": filepath.ToSlash(name), "title": filepath.Base(path), "text": string(text)})
	}
	for i, e := range readExamples(t, s) {
		if len(e.Documents) != 1 || filepath.Ext(e.Documents[0]) != ".md" {
			continue
		}
		questions++
		line(&queries, map[string]any{"_id": fmt.Sprint(i), "text": e.Question, "metadata": map[string]any{"answers": e.AnswerContains}})
		fmt.Fprintf(&qrels, "%d\t%s\t1\n", i, e.Documents[0])
	}
	for _, name := range names {
		// One more document makes the datasets different.
		put(t, root, name+"/corpus.jsonl", corpus.String()+`{"_id":"`+name+`","text":"This is `+name+`."}`)
		put(t, root, name+"/queries.jsonl", queries.String())
		put(t, root, name+"/qrels/test.tsv", qrels.String())
	}
	return root, questions
}

// keptLines returns the number of questions in a folder of results, over all rows.
func keptLines(t *testing.T, out string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "cells", "*", "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}

// measuredMatrix has the fields of matrix.json that are tested here.
type measuredMatrix struct {
	Matrix      string
	Combination struct {
		Baseline string
		Datasets []string
		Rows     []struct {
			Row     string
			Figures map[string]struct {
				Value   float64
				Against *struct{ Difference, P float64 }
			}
		}
	}
	Reports []evaluated
}

// testMatrix runs the tables of a paper on tiny datasets. Ctrl-C ends the first run during the
// second dataset. The second run asks only the missing questions, and the third none.
func testMatrix(t *testing.T, s *server) {
	root, n := exampleSets(t, s, "squad-articles", "qed-dev")
	const rows = 6 // number of rows of funnelrag.yaml
	all := 2 * rows * n
	if n < 2 {
		t.Fatalf("there are %d questions on Markdown among the examples", n)
	}
	out := filepath.Join(t.TempDir(), "figures")
	args := []string{"eval", "--matrix", filepath.Join(s.repository, "examples", "papers", "funnelrag.yaml"), "--datasets", root, "--out", out}
	before := evaluations(t, s)

	counted := countSearches(t, s.url, rows*n+rows+2)
	through := *s
	through.url = counted.URL
	through.sluice(t, append(args, "--dry-run")...).ok(t).has(t, "squad-articles", "flat + rerank", "score.keep=12", fmt.Sprintf("12 cells, %d questions, %d to ask", all, all))
	if _, asked := counted.take(); len(asked) > 0 {
		t.Errorf("a dry run asked %q", asked)
	}

	p := through.start(t, []string{"SLUICE_URL=" + through.url, "SLUICE_API_KEY=" + s.key}, "sluice", args...)
	select {
	case <-counted.stopped:
	case <-p.done:
		t.Fatalf("the matrix ended before it was interrupted: %s", p.log.tail())
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, p.done, "the end of the matrix")
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.tail(), "are kept in "+out) {
		t.Errorf("exit code %d, and it says %s", code, p.log.tail())
	}
	_, asked := counted.take()
	kept := keptLines(t, out)
	if want := rows*n + rows + 1; len(asked) != want+1 || kept != want {
		t.Fatalf("asked %d, the last of them in vain, and kept %d of %d", len(asked), kept, want)
	}
	answered := asked[:kept] // in order, because the matrix has parallel: 1
	if left := evaluations(t, s); len(left) <= len(before) {
		t.Errorf("the collections of what is unfinished are gone: %v, before %v", left, before)
	}
	through.sluice(t, append(args, "--dry-run")...).ok(t).has(t, fmt.Sprintf("%d questions, %d to ask", all, all-kept))

	// Questions that were answered are not asked again.
	second := through.sluice(t, args...).ok(t)
	second.has(t, "All 2 datasets", "flat + rerank", "AR@4", "differs from flat")
	_, again := counted.take()
	if len(again) != all-kept {
		t.Errorf("the second run asked %d, not %d", len(again), all-kept)
	}
	for _, what := range again {
		if slices.Contains(answered, what) {
			t.Errorf("asked twice: %s", what)
		}
	}
	if left := evaluations(t, s); len(left) != len(before) {
		t.Errorf("left are %v, before %v", left, before)
	}
	got := readMatrix(t, out)
	if got.Matrix != "funnelrag" || got.Combination.Baseline != "flat" || fmt.Sprint(got.Combination.Datasets) != "[squad-articles qed-dev]" ||
		len(got.Combination.Rows) != rows || len(got.Reports) != 2 || got.Reports[1].Queries != n || len(got.Reports[1].Plans) != rows {
		t.Fatalf("the matrix is %+v", got)
	}
	for _, row := range got.Combination.Rows {
		if f, there := row.Figures["ar@4"]; !there || f.Value < 0.5 || f.Value > 1 || (f.Against == nil) != (row.Row == "flat") {
			t.Errorf("%s has an answer recall of %+v", row.Row, f)
		}
		if f := row.Figures["ms"]; f.Value <= 0 {
			t.Errorf("%s takes %+v", row.Row, f)
		}
	}
	if tables, err := os.ReadFile(filepath.Join(out, "matrix.md")); err != nil || !strings.Contains(string(tables), "## All 2 datasets") || !strings.Contains(string(tables), "\n| funnelrag, score.keep=12 | ") {
		t.Errorf("the tables are %.500s, %v", tables, err)
	}
	if page, err := os.ReadFile(filepath.Join(out, "matrix.html")); err != nil || !strings.Contains(string(page), "All 2 datasets") || !strings.Contains(string(page), "<svg") {
		t.Errorf("the report is %.200s, %v", page, err)
	}

	// A third run asks no question, and gives the same results.
	third := through.sluice(t, args...).ok(t)
	if requests, asked := counted.take(); len(asked) > 0 {
		t.Errorf("the third run made %d requests and asked %q", requests, asked)
	}
	a, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(readMatrix(t, out)); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the same figures gave %s and %s, %v: %v", a, b, err, third)
	}

	// A changed question is asked again in every row.
	queries := filepath.Join(root, "qed-dev", "queries.jsonl")
	text, err := os.ReadFile(queries)
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "qed-dev/queries.jsonl", strings.Replace(string(text), "4.5 Nm", "4.6 Nm", 1))
	through.sluice(t, append(args, "--dry-run")...).ok(t).has(t, fmt.Sprintf("%d questions, %d to ask", all, rows))
	put(t, root, "qed-dev/corpus.jsonl", `{"_id":"handbook/02-leave-and-absence.md","text":"Nothing."}`+"\n"+`{"_id":"manuals/kd-40-dosing-pump-manual.md","text":"Nothing."}`+
		"\n"+`{"_id":"it/runbook-erp-restore.md","text":"Nothing."}`)
	through.sluice(t, append(args, "--dry-run")...).ok(t).has(t, fmt.Sprintf("%d questions, %d to ask", all, rows*n))

	through.sluice(t, append(args, "--plan", "naive")...).fails(t, "plan", "--matrix")
	through.sluice(t, "eval").fails(t, "dataset")
	through.sluice(t, "eval", root, "--dry-run").fails(t, "--matrix")
	put(t, root, "wrong.yaml", "datasets: [squad-articles]\nplans: [navie]\n")
	through.sluice(t, "eval", "--matrix", filepath.Join(root, "wrong.yaml")).fails(t, "plans[0]", "navie")
}

func readMatrix(t *testing.T, out string) measuredMatrix {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "matrix.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got measuredMatrix
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("matrix.json is %s: %v", text, err)
	}
	return got
}

// testMatrixAlone measures a matrix without a running server. A server is started for each language
// model; both use the same collection.
func testMatrixAlone(t *testing.T, p programs) {
	base := dataset(t)
	put(t, base, "matrix.yaml", `
datasets: [tiny]
packs: [`+filepath.Join(p.repository, "models", "default")+`]
plans: [naive]
settings: [{}, {name: brief, language_model: {max_tokens: 99}}]
answers: true
`)
	out := filepath.Join(base, "figures")
	r := p.run(t, nil, "sluice", "eval", "--matrix", filepath.Join(base, "matrix.yaml"), "--out", out, "--data", localtest.Dir(t)).ok(t)
	if n := strings.Count(r.err, "Starting a server"); n != 2 || !strings.Contains(r.err, "from an earlier run") {
		t.Errorf("%d servers were started, or the documents ingested twice: %v", n, r)
	}
	got := readMatrix(t, out)
	if rows := got.Combination.Rows; len(rows) != 2 || rows[1].Row != "naive, brief" || rows[1].Figures["f1"].Value <= 0 || rows[1].Figures["cost_efficiency"].Value <= 0 {
		t.Errorf("the rows are %+v", rows)
	}
}
