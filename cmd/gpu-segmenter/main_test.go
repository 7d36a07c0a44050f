package main

// This file tests the program as a process: it answers requests, shows its health, ends with its
// parent, and can be killed at any time without an error for its clients.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/wire"
)

// runMain is the environment variable that makes the test binary run as gpu-segmenter.
const runMain = "GPU_SEGMENTER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		if stray := os.Getenv(runMisbehaving); stray != "" {
			misbehave(stray)
			return
		}
		main()
		return
	}
	localtest.Main(m, localtest.Need{})
}

// process is a running gpu-segmenter.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan error
	log    string // path of its standard output and error
}

func startProcess(t *testing.T, natsURL string, args ...string) *process {
	t.Helper()
	return startCommand(t, natsURL, nil, func(program []string) []string { return append(program, args...) })
}

// startCommand starts gpu-segmenter with env added to its environment. The function command returns
// the command line to run, given that of gpu-segmenter.
func startCommand(t *testing.T, natsURL string, env []string, command func(program []string) []string) *process {
	t.Helper()
	library, err := local.FindONNXRuntime()
	if err != nil {
		t.Fatalf("%v (run `make setup`)", err)
	}
	pack := inferencetest.Pack(t)
	p := &process{log: filepath.Join(t.TempDir(), "log"), exited: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := command([]string{os.Args[0], "--with-parent"})
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), runMain+"=1", "SLUICE_NATS_URL="+natsURL, "SLUICE_MODEL_PACK="+pack,
		"SLUICE_ONNXRUNTIME_LIB="+library, "SLUICE_MODEL_THREADS=1")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("gpu-segmenter said:\n%s", text)
		}
	})
	return p
}

// ended waits until the process has exited and returns its error.
func (p *process) ended(t *testing.T) error {
	t.Helper()
	return waittest.Receive(t, p.exited, "the end of gpu-segmenter")
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, response.Status, err, body)
	}
	return string(body)
}

func TestAnswersShowsItsHealthAndEndsWithItsParent(t *testing.T) {
	url, address := localtest.NATS(t).URL(), localtest.FreeAddress(t)
	p := startProcess(t, url, "--health-listen="+address)
	client := modelclient.New(connect(t, url), modelclient.Options{})
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Provider != "cpu" || info.Dimension == 0 || info.Space == "" {
		t.Errorf("info %+v", info)
	}
	if _, _, err := client.Encode(t.Context(), wire.LaneInteractive, []string{"a question"}); err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	get(t, "http://"+address+"/healthz")
	get(t, "http://"+address+"/readyz")
	if page := get(t, "http://"+address+"/metrics"); !strings.Contains(page, "sluice_model_run_duration_seconds") {
		t.Errorf("the metrics lack the model's:\n%.2000s", page)
	}
	all, err := bus.Services(t.Context(), connect(t, url))
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if s := all[0]; s.Service != wire.ModelService || s.Program != "gpu-segmenter" || s.PID != p.cmd.Process.Pid || s.Served+int64(s.Waiting) < 2 || s.Model == nil || s.Model.Pack != info.Pack {
		t.Errorf("it tells %+v", s)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(t); err != nil {
		t.Errorf("without its parent it ended with %v", err)
	}
}

func TestInterruptEndsItCleanly(t *testing.T) {
	url := localtest.NATS(t).URL()
	p := startProcess(t, url, "--health-listen=off")
	if _, err := modelclient.New(connect(t, url), modelclient.Options{}).Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(t); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestEndsWithItsParentWithoutNATS(t *testing.T) {
	bus := localtest.NATS(t)
	p := startProcess(t, bus.URL(), "--health-listen=off")
	nc := connect(t, bus.URL())
	if _, err := modelclient.New(nc, modelclient.Options{}).Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := bus.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_ = p.ended(t) // the exit status depends on whether requests were lost with NATS
	stderr, err := os.ReadFile(p.log)
	if err != nil || strings.Contains(string(stderr), context.DeadlineExceeded.Error()) {
		t.Errorf("it took all its time to end (%v)", err)
	}
}

func TestCallersSurviveSIGKILL(t *testing.T) {
	url := localtest.NATS(t).URL()
	first := startProcess(t, url, "--health-listen=off")
	client := modelclient.New(connect(t, url), modelclient.Options{BulkAttemptTimeout: 2 * time.Second})
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, 20000)
	for i := range texts {
		texts[i] = fmt.Sprintf("Clause %d of the contract says that the pump is delivered with %d hoses and a filter.", i, i%7)
	}
	want, _, err := client.Encode(t.Context(), wire.LaneBulk, texts[:10])
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		vectors wire.Vectors
		err     error
	}
	done := make(chan result, 1)
	go func() {
		vectors, _, err := client.Encode(t.Context(), wire.LaneBulk, texts)
		done <- result{vectors, err}
	}()
	// An answer to this request shows that the server has received parts of the long call.
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.exited
	select {
	case r := <-done:
		t.Fatalf("the call was over before the server was killed (%v): give it more to do", r.err)
	default:
	}
	startProcess(t, url, "--health-listen=off")
	r := <-done
	if r.err != nil || r.vectors.Len() != len(texts) {
		t.Fatalf("%d vectors, %v", r.vectors.Len(), r.err)
	}
	for i, x := range r.vectors.Data[:len(want.Data)] {
		if d := x - want.Data[i]; d > 1e-5 || d < -1e-5 {
			t.Fatalf("value %d is %v, was %v", i, x, want.Data[i])
		}
	}
}

// TestCallersFailOverWhenOneOfTwoIsKilled kills one of two servers during bulk calls of score and
// link and interactive calls of fuse and detect. Every call succeeds without a restart of the
// killed server, and each text has exactly one score, at its index.
func TestCallersFailOverWhenOneOfTwoIsKilled(t *testing.T) {
	url := localtest.NATS(t).URL()
	first := startProcess(t, url, "--health-listen=off")
	second := startProcess(t, url, "--health-listen=off")
	first.ready(t)
	second.ready(t)
	nc := connect(t, url)
	client := modelclient.New(nc, modelclient.Options{BulkAttemptTimeout: 2 * time.Second, InteractiveAttemptTimeout: time.Second})
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	const question = "What is delivered with the pump?"
	texts := make([]string, 30000)
	for i := range texts {
		// Equal texts have equal scores, in any part and from either server.
		texts[i] = fmt.Sprintf("Clause %d of the contract says that the pump is delivered with %d hoses and a filter.", i%100, i%7)
	}
	want, _, err := client.Score(t.Context(), wire.LaneBulk, question, texts[:700], true)
	if err != nil {
		t.Fatal(err)
	}
	document := []wire.Vectors{{Dimension: info.Dimension, Data: make([]float32, 3000*info.Dimension)}}
	for i := range document[0].Data {
		document[0].Data[i] = float32(i%13) / 50
	}

	var calls errgroup.Group
	calls.Go(func() error {
		got, _, err := client.Score(t.Context(), wire.LaneBulk, question, texts, true)
		if err == nil && len(got) != len(texts) {
			err = fmt.Errorf("%d scores for %d texts", len(got), len(texts))
		}
		for i, s := range got {
			w := want[i%700]
			if d := s.Relevance - w.Relevance; d > 1e-4 || d < -1e-4 || s.Answer == nil || s.Answer.Start != w.Answer.Start || s.Answer.End != w.Answer.End {
				return fmt.Errorf("text %d has %+v, alone it had %+v", i, s, w)
			}
		}
		return err
	})
	calls.Go(func() error {
		links, _, err := client.Link(t.Context(), wire.LaneBulk, info.Space, document, 3)
		if err == nil && (len(links) != 1 || len(links[0]) != 3000) {
			err = fmt.Errorf("links of %d documents", len(links))
		}
		return err
	})
	killed := make(chan struct{})
	asked := make(chan struct{}, 1)
	calls.Go(func() error {
		// Interactive calls continue until 20 rounds after the kill.
		for after := 0; after < 20; {
			if _, _, err := client.Fuse(t.Context(), wire.LaneInteractive, question, texts[:5], 0, false); err != nil {
				return err
			}
			if _, _, _, err := client.Detect(t.Context(), wire.LaneInteractive, [][][2]float32{{{1, 2}}}); err != nil {
				return err
			}
			select {
			case <-killed:
				after++
			case asked <- struct{}{}:
			default:
			}
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- calls.Wait() }()
	<-asked // calls are under way
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.exited
	select {
	case err := <-done:
		t.Fatalf("the calls were over before the server was killed (%v): give them more to do", err)
	default:
	}
	close(killed)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// ready waits until the process logs that the model server is ready.
func (p *process) ready(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() string {
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "the model server is ready") {
			return "gpu-segmenter is not ready"
		}
		return ""
	})
}
