package llm

// This file handles servers that return a whole completion although a stream was requested. It is
// passed on as one piece.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"
)

// maxCompletion bounds such a completion, in bytes.
const maxCompletion = 8 << 20

// completionAsEvents turns a reply that is a JSON completion, although a stream was requested, into
// server-sent events. It leaves other replies as they are.
func completionAsEvents(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	reply, err := next(r)
	if err != nil || reply.StatusCode != http.StatusOK {
		return reply, err
	}
	if kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type")); kind != "application/json" {
		return reply, nil
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxCompletion))
	_ = reply.Body.Close() // all that counts has been read
	if err != nil {
		return nil, fmt.Errorf("read a completion: %w", err)
	}
	reply.Header.Set("Content-Type", "text/event-stream")
	reply.ContentLength = -1
	reply.Body = io.NopCloser(strings.NewReader(asEvents(body)))
	return reply, nil
}

// asEvents returns a completion as server-sent events. Any other body becomes an event that cannot
// be parsed.
func asEvents(body []byte) string {
	var whole map[string]any
	if json.Unmarshal(body, &whole) == nil {
		choices, _ := whole["choices"].([]any)
		for _, c := range choices {
			if choice, ok := c.(map[string]any); ok {
				choice["delta"] = choice["message"]
				delete(choice, "message")
			}
		}
		if len(choices) > 0 {
			whole["object"] = "chat.completion.chunk"
			body, _ = json.Marshal(whole) // marshalling unmarshalled JSON does not fail
		}
	}
	return "data: " + string(bytes.ReplaceAll(body, []byte("\n"), []byte(" "))) + "\n\ndata: [DONE]\n\n"
}
