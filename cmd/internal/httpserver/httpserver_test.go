package httpserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// serve runs a server and returns its address.
func serve(t *testing.T, l Limits, handler http.HandlerFunc) string {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, done := New(handler, l), make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return listener.Addr().String()
}

// dial sends the beginning of a request.
func dial(t *testing.T, address, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// answer reads one reply.
func answer(t *testing.T, in *bufio.Reader) (status int, body string) {
	t.Helper()
	got, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(data)
}

// ended waits until the server closes the connection.
func ended(t *testing.T, in *bufio.Reader) {
	t.Helper()
	if rest, _ := io.ReadAll(in); len(rest) > 0 { // a reset is an end, too
		t.Errorf("the server went on: %.100q", rest)
	}
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, "no key")
}

func TestRefusalsWaitForNoBody(t *testing.T) {
	// With limits of an hour, the reply must come although the body stalls.
	address := serve(t, Limits{Idle: time.Hour, Grace: time.Hour}, refuse)
	for _, text := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n{",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
	} {
		_, in := dial(t, address, text)
		if status, body := answer(t, in); status != http.StatusUnauthorized || body != "no key" {
			t.Errorf("%q gave %d %q", text, status, body)
		}
	}
}

func TestStalledRequestsEnd(t *testing.T) {
	failed := make(chan error, 2)
	soon := Limits{Header: 50 * time.Millisecond, Idle: 50 * time.Millisecond}
	address := serve(t, soon, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			refuse(w, r)
			return
		}
		_, err := io.ReadAll(r.Body)
		failed <- err
		w.WriteHeader(http.StatusRequestTimeout)
	})
	_, in := dial(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	if status, _ := answer(t, in); status != http.StatusRequestTimeout {
		t.Errorf("a stalled body gave %d", status)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the handler got %v", err)
	}
	ended(t, in)
	_, in = dial(t, address, "POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	answer(t, in)
	ended(t, in)
	_, in = dial(t, address, "POST / HTTP/1.1\r\nHost: x\r\nX-Head")
	if status, _ := answer(t, in); status != http.StatusBadRequest {
		t.Errorf("headers that stand still gave %d", status)
	}
	ended(t, in)
}

func TestConnectionsOutliveShortBodiesThatNobodyReads(t *testing.T) {
	address := serve(t, Limits{Idle: 100 * time.Millisecond}, refuse)
	conn, in := dial(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	answer(t, in)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	if status, _ := answer(t, in); status != http.StatusUnauthorized {
		t.Errorf("the second request gave %d", status)
	}
	// The rest of a body is never parsed as a request.
	_, in = dial(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n"+
		"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
	answer(t, in)
	ended(t, in)
}

func TestRefusalsAreShort(t *testing.T) {
	address := serve(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write(make([]byte, 1_000_000))
	})
	_, in := dial(t, address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, body := answer(t, in); status != http.StatusUnprocessableEntity || !strings.Contains(body, "too long") {
		t.Errorf("%d %.100q", status, body)
	}
}

// deadlines records the read deadlines.
type deadlines struct {
	http.ResponseWriter
	last time.Duration // time until the deadline
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.last = time.Until(at)
	return nil
}

func TestBodiesThatGoOnComingHaveTime(t *testing.T) {
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	from := io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20)))
	p := &paced{ReadCloser: from, control: http.NewResponseController(d),
		limits: Limits{Idle: time.Hour, Grace: 10 * time.Hour, Rate: 1024}}
	read := func() time.Duration {
		t.Helper()
		if _, err := p.Read(make([]byte, 1024)); err != nil {
			t.Fatal(err)
		}
		return d.last.Round(time.Minute)
	}
	if got := read(); got != time.Hour {
		t.Errorf("a body may stand still for %v", got)
	}
	p.waited = 9*time.Hour + 30*time.Minute
	if got := read(); got != 30*time.Minute {
		t.Errorf("at the end of its grace it may stand still for %v", got)
	}
	p.read += 1024 * 3600 // an hour's worth came
	if got := read(); got != time.Hour {
		t.Errorf("after more of it came it may stand still for %v", got)
	}
}

// A handler may run longer than the server waits for a body, and the connection stays usable: no
// read deadline passes that would count as a disconnection.
func TestRequestsThatTakeLongAreNotCancelled(t *testing.T) {
	const soon = 30 * time.Millisecond
	address := serve(t, Limits{Header: soon, Idle: soon, Grace: soon}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/unread" {
			for range 2 { // decoders read on after the end
				if _, err := io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
			}
		}
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(soon)); err != nil { //house:clock deadlines are what is tested
			t.Error(err)
		}
		longer := time.NewTimer(10 * soon) //house:clock longer than the server's limits
		defer longer.Stop()
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		case <-longer.C:
			w.WriteHeader(http.StatusForbidden)
		}
	})
	conn, in := dial(t, address, "")
	for _, request := range []string{
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if status, _ := answer(t, in); status != http.StatusForbidden {
			t.Errorf("%q gave %d", request, status)
		}
	}
}
