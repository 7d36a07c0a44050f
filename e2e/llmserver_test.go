//go:build llm

package e2e

// This file runs a real language model in llama.cpp's server, behind a proxy that records requests
// and replies.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// modelName is the gateway's name for the model. llama.cpp's server accepts any name.
const modelName = "SmolLM2-135M-Instruct"

// languageModel is the proxy to the model's server, which the gateway uses.
type languageModel struct {
	*httptest.Server
	process *process
	url     string      // of llama.cpp's server
	long    atomic.Bool // replies go on until max_tokens
	dies    atomic.Bool // the server is killed during the next reply
	open    atomic.Int32
	begun   chan struct{}

	mu    sync.Mutex
	calls []modelCall
}

// modelCall is one request to the model.
type modelCall struct {
	task          string // derived from its system prompt
	repair        bool   // it asks again, because the reply did not have the required format
	status        int
	streamed      bool
	reply, finish string
	input, output int  // tokens, as the server counts them
	left          bool // the gateway disconnected before the end of the reply
}

// startLanguageModel starts the server that `tools/setup language-model` installed.
func startLanguageModel(t *testing.T, p programs) *languageModel {
	t.Helper()
	tools, err := local.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	program, model := os.Getenv("SLUICE_TEST_LLAMA_SERVER"), os.Getenv("SLUICE_TEST_LLAMA_MODEL")
	if program == "" {
		program = filepath.Join(tools, "language-model-1", "llama-server")
	}
	if model == "" {
		model = filepath.Join(tools, "language-model-1", modelName+".Q4_1.gguf")
	}
	m := &languageModel{begun: make(chan struct{}, 1)}
	m.process = programs{dir: filepath.Dir(program), repository: p.repository}.start(t, nil, filepath.Base(program),
		"--model", model, "--host", "127.0.0.1", "--port", "0", "--device", "none",
		"--threads", strconv.Itoa(min(4, runtime.NumCPU())), "--ctx-size", "8192", "--parallel", "1")
	listens := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)
	waittest.Until(t, func() string {
		select {
		case <-m.process.done:
			t.Fatalf("llama-server ended at its start: %v (`tools/setup language-model` gets it)\n%s",
				m.process.err, m.process.log.tail())
		default:
		}
		found := listens.FindStringSubmatch(m.process.log.tail() + m.process.out.tail())
		if found == nil {
			return "llama-server does not listen yet\n" + m.process.log.tail()
		}
		m.url = found[1]
		return ""
	})
	m.Server = httptest.NewServer(http.HandlerFunc(m.forward))
	t.Cleanup(m.Close)
	return m
}

// forward forwards a request, and the reply piece by piece.
func (m *languageModel) forward(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.long.Load() {
		body["ignore_eos"], body["max_tokens"] = true, 6000
		delete(body, "response_format") // it would end the reply
	}
	call := describeCall(body)
	m.open.Add(1)
	defer func() {
		defer m.open.Add(-1) // after the call is recorded
		call.left = r.Context().Err() != nil
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls = append(m.calls, call)
	}()
	sent, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, m.url+r.URL.Path, bytes.NewReader(sent))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(request)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, as the server does
	}
	defer func() { _ = reply.Body.Close() }()
	call.status = reply.StatusCode
	w.Header().Set("Content-Type", reply.Header.Get("Content-Type"))
	w.WriteHeader(reply.StatusCode)
	if !call.streamed || reply.StatusCode != http.StatusOK {
		whole, err := io.ReadAll(reply.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		call.read(whole)
		_, _ = w.Write(whole)
		return
	}
	lines := bufio.NewReader(reply.Body)
	for {
		line, err := lines.ReadBytes('\n')
		call.read(bytes.TrimPrefix(line, []byte("data: ")))
		_, _ = w.Write(line)
		w.(http.Flusher).Flush()
		if call.reply != "" {
			select {
			case m.begun <- struct{}{}:
			default:
			}
			if m.dies.Load() {
				_ = m.process.cmd.Process.Kill() // it may have ended already
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// tasks has the beginning of each system prompt.
var tasks = []struct{ begins, task string }{
	{"You answer questions for", "answer"}, {"You prepare questions", "rewrite"}, {"You judge passages", "judge"},
	{"You check answers", "feedback"}, {"You answer questions from what you know", "background"}, {"You grade answers", "correctness"},
}

func describeCall(body map[string]any) modelCall {
	call := modelCall{task: "unknown"}
	call.streamed, _ = body["stream"].(bool)
	messages, _ := body["messages"].([]any)
	call.repair = len(messages) > 2
	if len(messages) == 0 {
		return call
	}
	first, _ := messages[0].(map[string]any)
	system, _ := first["content"].(string)
	for _, t := range tasks {
		if strings.HasPrefix(system, t.begins) {
			call.task = t.task
		}
	}
	return call
}

// read adds a completion, or a piece of one, to the call.
func (c *modelCall) read(data []byte) {
	var got struct {
		Choices []struct {
			Message, Delta struct{ Content string }
			Finish         string `json:"finish_reason"`
		}
		Usage struct {
			Input  int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		}
	}
	if json.Unmarshal(data, &got) != nil {
		return
	}
	for _, choice := range got.Choices {
		c.reply += choice.Message.Content + choice.Delta.Content
		if choice.Finish != "" {
			c.finish = choice.Finish
		}
	}
	if got.Usage.Input > 0 {
		c.input, c.output = got.Usage.Input, got.Usage.Output
	}
}

// since returns the calls after the first n.
func (m *languageModel) since(n int) []modelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]modelCall(nil), m.calls[n:]...)
}

func (m *languageModel) count() int { return len(m.since(0)) }

// idle waits until the server processes no request.
func (m *languageModel) idle(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() string {
		for _, slot := range as[[]struct {
			Processing bool `json:"is_processing"`
		}](t, (&server{url: m.url}).call(t, http.MethodGet, "/slots", nil).want(t, http.StatusOK)) {
			if slot.Processing {
				return "llama-server computes a reply that nobody waits for"
			}
		}
		return ""
	})
}
