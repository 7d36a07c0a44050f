package httpapi

// Server-sent events: how they are written, and how the API describes them. huma's package for them
// writes the headers before the handler runs, so that an error could not have its own HTTP status.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	eventsType = "text/event-stream"
	// defaultHeartbeat is the default interval of heartbeats. It is shorter than the timeouts of
	// proxies.
	defaultHeartbeat = 15 * time.Second
	// eventPatience is how long writing one event to a client may take.
	eventPatience = 30 * time.Second
)

// events writes a stream of events to one client.
type events struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// newEvents begins a stream. From then on the status is 200.
func newEvents(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", eventsType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // else nginx buffers events
	w.WriteHeader(http.StatusOK)
	return &events{w: w, c: http.NewResponseController(w)}
}

// send writes an event; an empty name is left out. An error means that the client is gone or does
// not read.
func (e *events) send(name string, data any) error {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	if err := json.NewEncoder(&b).Encode(data); err != nil { // Encode adds the only line break
		return fmt.Errorf("encode an event %s: %w", name, err)
	}
	b.WriteByte('\n')
	return e.write(b.Bytes())
}

// heartbeat writes a heartbeat.
func (e *events) heartbeat() error { return e.write([]byte(": \n\n")) }

func (e *events) write(b []byte) error {
	_ = e.c.SetWriteDeadline(time.Now().Add(eventPatience)) // test writers may have no deadlines
	if _, err := e.w.Write(b); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if err := e.c.Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

// close removes the write deadline of the connection.
func (e *events) close() { _ = e.c.SetWriteDeadline(time.Time{}) }

// eventsContent describes a stream of events. data has a value of each event's type, by its name.
func (s *server) eventsContent(data map[string]any) *huma.MediaType {
	var kinds []*huma.Schema
	for _, name := range slices.Sorted(maps.Keys(data)) {
		t := reflect.TypeOf(data[name])
		kinds = append(kinds, &huma.Schema{Title: "Event " + name, Type: huma.TypeObject, Required: []string{"event", "data"}, Properties: map[string]*huma.Schema{
			"event": {Type: huma.TypeString, Enum: []any{name}},
			"data":  s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name()),
		}})
	}
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeArray, Description: "Server-sent events, each with a name and, as data, one line of JSON.",
		Items: &huma.Schema{OneOf: kinds}}}
}
