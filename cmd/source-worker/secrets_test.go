package main

// Credentials in a server's reply must not get into errors and logs.

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/source"
)

// logged returns the log of a function's run.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	to := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	})
	before, beforeText := slog.Default(), log.Writer()
	slog.SetDefault(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.SetOutput(to)
	f()
	log.SetOutput(beforeText)
	slog.SetDefault(before)
	mu.Lock()
	defer mu.Unlock()
	return out.String()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// echoServer answers every request with a status and everything that it knows about the client.
func echoServer(t *testing.T, status int, row string) (host, port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, strings.Join(credentialsIn(row), `\n`))
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("X-Said", strings.ReplaceAll(said, "\n", " "))
		if status < 300 {
			// The reply is not in a format that clients expect.
			_, _ = fmt.Fprintf(w, "<said>%s", said)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%[1]s</Code><Message>%[1]s</Message></Error>", said)
	}))
	t.Cleanup(server.Close)
	host, port, _ = net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	return host, port
}

func TestErrorsAndLogsShowNoCredentials(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusInternalServerError} {
		for _, row := range append([]string{"gcs and account", "drive and account", "azureblob"}, speakHTTP...) {
			if row == "azureblob" && status >= http.StatusTooManyRequests {
				continue // its library repeats requests for a minute
			}
			t.Run(fmt.Sprintf("%s with %d", row, status), func(t *testing.T) {
				host, port := echoServer(t, status, row)
				values := driverSettings(host, port)[row]
				var err error
				text := logged(t, func() {
					err = attempt(t.Context(), driverFor(t, row), source.Settings{AllowPrivate: true, Values: values})
				})
				text += fmt.Sprintf("%v %+v %s", err, err, err)
				if secret := leakedSecret(row, text); secret != "" {
					t.Errorf("%q is shown: %s", secret, text)
				}
			})
		}
	}
}

func TestErrorsOfIMAPServersShowNoCredentials(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = fmt.Fprint(conn, "* OK [CAPABILITY IMAP4rev1] ready\r\n")
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					tag, rest, _ := strings.Cut(lines.Text(), " ")
					_, _ = fmt.Fprintf(conn, "%s NO I was told %s\r\n", tag, rest)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	values := driverSettings(host, port)["imap"]
	values["security"] = "none"
	text := logged(t, func() {
		err = attempt(t.Context(), driverFor(t, "imap"), source.Settings{AllowPrivate: true, Values: values})
	})
	if text += fmt.Sprintf("%v %+v %s", err, err, err); !strings.Contains(text, "I was told") || leakedSecret("imap", text) != "" {
		t.Errorf("the server's words are %s", text)
	}
}
