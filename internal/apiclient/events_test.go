package apiclient

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestAskToldReadsEvents(t *testing.T) {
	calls := 0
	reply := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("the request has %v", r.Header)
		}
		if calls == 1 { // no event was sent, so the request is retried
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, reply)
	}))
	defer server.Close()
	c, err := New(server.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	const begun = ": \n\nevent: stage\ndata: {\"stage\":\"generate\",\"candidates\":8}\n\nevent: newer\ndata: 1\n\nevent: delta\ndata: {\"text\":\"Fi\"}\n\n"
	for _, c2 := range []struct {
		reply, answer string
		is            func(error) bool
	}{
		{begun + "event: answer\ndata: {\"answer\":\"Five.\"}\n\n", "Five.", func(err error) bool { return err == nil }},
		{begun + "event: error\ndata: {\"status\":504,\"title\":\"late\"}\n\n", "", func(err error) bool { return IsStatus(err, http.StatusGatewayTimeout) }},
		{begun, "", func(err error) bool {
			return errors.Is(err, schema.ErrUnavailable) && strings.Contains(err.Error(), "broke off")
		}},
	} {
		reply, calls = c2.reply, 0
		told := ""
		a, err := c.AskStreaming(t.Context(), api.Query{Query: "q"}, func(p Progress) {
			if p.Stage != nil {
				told += p.Stage.Stage + " "
			}
			if p.Delta != nil {
				told += p.Delta.Text
			}
		})
		if a.Answer != c2.answer || !c2.is(err) || told != "generate Fi" || calls != 2 {
			t.Errorf("%q gave %q, %v after %d calls; told %q", c2.reply, a.Answer, err, calls, told)
		}
	}
}
