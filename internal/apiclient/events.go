package apiclient

// Replies as server-sent events.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// replyReader is an out of a call that reads the reply as a stream. Once it has begun to read, the
// request is not retried.
type replyReader func(*http.Response) error

const eventsType = "text/event-stream"

// maxEvent bounds one event, in bytes.
const maxEvent = 16 << 20

// eachEvent calls f with the events of a stream, until f reports the last one. It returns an error
// if the stream ends before.
func eachEvent(body io.Reader, f func(name string, data []byte) (last bool, err error)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	var name string
	var data []byte
	for lines.Scan() {
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(lines.Bytes()) == 0 && name != "":
			if last, err := f(name, data); last || err != nil {
				return err
			}
			name, data = "", nil
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			data = append(data, value...)
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the server's stream broke off (%w): %w", err, schema.ErrUnavailable)
}

// Progress is a step in making an answer. One of its two fields is set.
type Progress struct {
	Stage *api.StageEvent
	Delta *api.DeltaEvent
}

// AskStreaming waits for an answer, and calls tell with the progress meanwhile.
func (c *Client) AskStreaming(ctx context.Context, q api.Query, tell func(Progress)) (schema.Answer, error) {
	var answer schema.Answer
	k, err := newCall(http.MethodPost, "/v1/ask", nil, q)
	if err != nil {
		return answer, err
	}
	k.header.Set("Accept", eventsType)
	err = c.do(ctx, k, replyReader(func(r *http.Response) error {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), eventsType) { // an older server
			return json.NewDecoder(r.Body).Decode(&answer)
		}
		return eachEvent(r.Body, func(name string, data []byte) (bool, error) {
			var p Progress
			switch name {
			case api.EventStage:
				p.Stage = &api.StageEvent{}
				err := json.Unmarshal(data, p.Stage)
				tell(p)
				return false, err
			case api.EventDelta:
				p.Delta = &api.DeltaEvent{}
				err := json.Unmarshal(data, p.Delta)
				tell(p)
				return false, err
			case api.EventAnswer:
				return true, json.Unmarshal(data, &answer)
			case api.EventError:
				return true, problemOf(data)
			}
			return false, nil // an event of a newer server
		})
	}))
	return answer, err
}

// problemOf converts an error event to an error.
func problemOf(data []byte) error {
	var p api.Problem
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("read the server's error: %w", err)
	}
	return &p
}

// FollowJob calls tell with a job as it is now and after each change, and told with its answer's
// text while it is made. It returns the job when it has ended. After a reconnection told gets the
// whole text again.
func (c *Client) FollowJob(ctx context.Context, id uuid.UUID, tell func(schema.Job), told func(api.DeltaEvent)) (schema.Job, error) {
	for {
		heard := false
		var job schema.Job
		k, err := newCall(http.MethodGet, "/v1/jobs/"+id.String()+"/events", nil, nil)
		if err != nil {
			return job, err
		}
		k.header.Set("Accept", eventsType)
		err = c.do(ctx, k, replyReader(func(r *http.Response) error {
			return eachEvent(r.Body, func(name string, data []byte) (bool, error) {
				switch name {
				case api.EventJob:
					job = schema.Job{}
					if err := json.Unmarshal(data, &job); err != nil {
						return false, fmt.Errorf("read a job: %w", err)
					}
					heard = true
					tell(job)
					return job.State.Final(), nil
				case api.EventDelta:
					var d api.DeltaEvent
					err := json.Unmarshal(data, &d)
					told(d)
					return false, err
				case api.EventError:
					return true, problemOf(data)
				}
				return false, nil
			})
		}))
		// Reconnect if the stream broke off. If no stream began, do has retried already.
		if err == nil || !heard || ctx.Err() != nil || !errors.Is(err, schema.ErrUnavailable) {
			return job, err
		}
	}
}
