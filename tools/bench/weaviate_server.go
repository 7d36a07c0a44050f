package main

// This file runs a Weaviate server on one machine, and calls its HTTP API.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/internal/local"
)

// weaviate is a running server on a folder that the caller removes.
type weaviate struct {
	program, dir, url string
	env, args         []string
	http              *http.Client
	server            *server
}

func findWeaviate(program string) (string, error) {
	if program == "" {
		tools, err := local.ToolsDir()
		if err != nil {
			return "", err
		}
		program = filepath.Join(tools, "weaviate-server")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("find Weaviate: %w", err)
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w; `tools/setup weaviate` builds it", err)
	}
	return program, nil
}

func startWeaviate(ctx context.Context, program, dir string) (*weaviate, error) {
	var ports []string
	for range 6 {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		ports = append(ports, port)
	}
	transport := keepAlive(1024)
	w := &weaviate{
		program: program, dir: dir, url: "http://127.0.0.1:" + ports[0], http: &http.Client{Transport: transport},
		args: []string{"--scheme", "http", "--host", "127.0.0.1", "--port", ports[0]},
		env: []string{
			"PERSISTENCE_DATA_PATH=" + filepath.Join(dir, "weaviate"), "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=true", "DEFAULT_VECTORIZER_MODULE=none",
			"CLUSTER_HOSTNAME=bench", "CLUSTER_ADVERTISE_ADDR=127.0.0.1", "RAFT_BOOTSTRAP_EXPECT=1",
			"GRPC_PORT=" + ports[1], "CLUSTER_GOSSIP_BIND_PORT=" + ports[2], "CLUSTER_DATA_BIND_PORT=" + ports[3], "RAFT_PORT=" + ports[4], "RAFT_INTERNAL_RPC_PORT=" + ports[5],
			"GO_PROFILING_DISABLE=true", "DISABLE_TELEMETRY=true", "LOG_LEVEL=warning",
		},
	}
	return w, w.begin(ctx)
}

// begin starts the server and waits until it is ready.
func (w *weaviate) begin(ctx context.Context) (err error) {
	if w.server, err = launch(w.dir, "weaviate", w.env, w.program, w.args...); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start Weaviate: %w\n%s", err, w.server.logTail())
			_ = w.stop() // its output is also in the log
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it is not ready after %s", startTime))
	defer cancel()
	for {
		if _, err := w.call(ctx, http.MethodGet, "/v1/.well-known/ready", nil); err == nil {
			return nil
		}
		if err := rest(ctx, pollInterval); err != nil {
			return err
		}
	}
}

func (w *weaviate) restart(ctx context.Context) error {
	if err := w.stop(); err != nil {
		return err
	}
	return w.begin(ctx)
}

func (w *weaviate) stop() error {
	if w.server == nil {
		return nil
	}
	s := w.server
	w.server = nil
	return s.stop()
}

// call returns the reply of the server. A status other than 2xx is an error.
func (w *weaviate) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("call Weaviate: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, sent)
	if err != nil {
		return nil, fmt.Errorf("call Weaviate: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := w.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call Weaviate: %w", err)
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, fmt.Errorf("call Weaviate: %w", err)
	}
	if reply.StatusCode/100 != 2 {
		return nil, fmt.Errorf("the Weaviate server replied to %s %s with %s: %s", method, path, reply.Status, text)
	}
	return text, nil
}

// paragraphs is the name of the class of the text objects.
const paragraphs = "Paragraph"

// fill creates a class with an inverted index and without vectors, and adds texts to it.
func (w *weaviate) fill(ctx context.Context, texts []string) error {
	type object map[string]any
	if _, err := w.call(ctx, http.MethodPost, "/v1/schema", object{
		"class": paragraphs, "vectorizer": "none", "vectorIndexConfig": object{"skip": true},
		"invertedIndexConfig": object{"bm25": object{"k1": 1.2, "b": 0.75}, "stopwords": object{"preset": "en"}},
		"properties": []object{
			{"name": "text", "dataType": []string{"text"}, "tokenization": "word", "indexSearchable": true, "indexFilterable": false},
		},
	}); err != nil {
		return err
	}
	for part := range slices.Chunk(texts, 500) {
		objects := make([]object, len(part))
		for i, text := range part {
			objects[i] = object{"class": paragraphs, "properties": object{"text": text}}
		}
		reply, err := w.call(ctx, http.MethodPost, "/v1/batch/objects", object{"objects": objects})
		if err != nil {
			return err
		}
		var stored []struct {
			Result struct {
				Status string
				Errors json.RawMessage
			}
		}
		if err := json.Unmarshal(reply, &stored); err != nil {
			return fmt.Errorf("read what Weaviate stored: %w", err)
		}
		for _, s := range stored {
			if s.Result.Status != "SUCCESS" {
				return fmt.Errorf("the Weaviate server did not store a text: %s %s", s.Result.Status, s.Result.Errors)
			}
		}
		if len(stored) != len(part) {
			return fmt.Errorf("the Weaviate server stored %d of %d texts", len(stored), len(part))
		}
	}
	return nil
}

// search returns the texts of the k best objects by BM25.
func (w *weaviate) search(ctx context.Context, query string, k int) ([]string, error) {
	quoted, err := json.Marshal(query)
	if err != nil {
		return nil, fmt.Errorf("ask Weaviate: %w", err)
	}
	reply, err := w.call(ctx, http.MethodPost, "/v1/graphql", map[string]string{
		"query": fmt.Sprintf(`{Get{%s(bm25:{query:%s properties:["text"]} limit:%d){text _additional{id score}}}}`, paragraphs, quoted, k),
	})
	if err != nil {
		return nil, err
	}
	var got struct {
		Data struct {
			Get map[string][]struct{ Text string }
		}
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(reply, &got); err != nil {
		return nil, fmt.Errorf("read what Weaviate found: %w", err)
	}
	if len(got.Errors) > 0 {
		return nil, fmt.Errorf("the Weaviate server did not search: %w", errors.New(got.Errors[0].Message))
	}
	found := got.Data.Get[paragraphs]
	out := make([]string, len(found))
	for i, p := range found {
		out[i] = p.Text
	}
	return out, nil
}
