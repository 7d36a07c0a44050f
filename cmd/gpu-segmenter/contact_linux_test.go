package main

// This file tests that the program connects to nothing but NATS and, if one is set, an
// OpenTelemetry collector, and writes nothing outside its folder. strace traces the real process
// from start to exit.

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// buildMachine lists the environment variables by which ONNX Runtime detects a build machine, where
// it sends no telemetry.
var buildMachine = []string{
	"CI", "TF_BUILD", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TRAVIS", "JENKINS_URL", "CODEBUILD_BUILD_ID", "BUILDKITE",
	"TEAMCITY_VERSION", "APPVEYOR", "BITBUCKET_BUILD_NUMBER",
}

// startTraced starts the process under strace and returns it with the path of strace's output. The
// process may write to no folder but its working directory.
func startTraced(t *testing.T, natsURL string, env ...string) (p *process, trace string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v (run `tools/setup strace`)", err)
	}
	trace = filepath.Join(t.TempDir(), "trace")
	home := t.TempDir()
	env = append([]string{"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "TMPDIR=" + home}, env...)
	for _, name := range buildMachine {
		env = append(env, name+"=")
	}
	return startCommand(t, natsURL, env, func(args []string) []string {
		return append([]string{strace, "-f", "-y", "-s", "4096", "-o", trace, "-e", "trace=" + strings.Join(traced, ","), "--"}, append(args, "--health-listen=127.0.0.1:0")...)
	}), trace
}

// useAll sends an info request, and in both lanes a request of every other operation except
// segment_encode.
func useAll(t *testing.T, natsURL string) {
	t.Helper()
	client := modelclient.New(connect(t, natsURL), modelclient.Options{})
	ctx := t.Context()
	info, err := client.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const question = "What is delivered with the pump?"
	texts := []string{"The pump is delivered with three hoses.", "A filter is not part of it."}
	for _, lane := range []wire.Lane{wire.LaneInteractive, wire.LaneBulk} {
		_, _, encoded := client.Encode(ctx, lane, texts)
		_, _, segmented := client.Segment(ctx, lane, [][]string{texts})
		_, _, scored := client.Score(ctx, lane, question, texts, true)
		_, _, reranked := client.Rerank(ctx, lane, question, texts, true)
		_, _, linked := client.Link(ctx, lane, info.Space, []wire.Vectors{{Dimension: info.Dimension, Data: make([]float32, 2*info.Dimension)}}, 1)
		_, _, fused := client.Fuse(ctx, lane, question, texts, 0, false)
		_, _, _, detected := client.Detect(ctx, lane, [][][2]float32{{{1, 2}}})
		for _, err := range []error{encoded, segmented, scored, reranked, linked, fused, detected} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// finish ends the process as the death of its parent would, by closing standard input, and returns
// all that the process did.
func finish(t *testing.T, p *process, trace string) traceReport {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	d, err := readTrace(trace, p.cmd.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestConnectsToNATSOnlyAndWritesNothing(t *testing.T) {
	nats := localtest.NATS(t).URL()
	p, trace := startTraced(t, nats)
	useAll(t, nats)
	d := finish(t, p, trace)
	if v := d.violations([]string{host(t, nats)}, []string{p.cmd.Dir}); len(v) > 0 {
		t.Errorf("the model server:\n%s", strings.Join(v, "\n"))
	}
	if len(d.connections) == 0 {
		t.Error("not even its connection to NATS was seen")
	}
}

func TestConnectsToTheConfiguredCollector(t *testing.T) {
	nats := localtest.NATS(t).URL()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer collector.Close()
	p, trace := startTraced(t, nats, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	useAll(t, nats)
	d := finish(t, p, trace)
	if v := d.violations([]string{host(t, nats), host(t, collector.URL)}, []string{p.cmd.Dir}); len(v) > 0 {
		t.Errorf("the model server:\n%s", strings.Join(v, "\n"))
	}
	if !slices.Contains(d.connections, host(t, collector.URL)) {
		t.Error("it sent nothing to the collector")
	}
}

// TestTraceShowsTelemetryOfTheLibrary: with ONNX Runtime's telemetry left on, the test sees the
// same process connect elsewhere and write outside its folder.
func TestTraceShowsTelemetryOfTheLibrary(t *testing.T) {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	library := filepath.Join(t.TempDir(), "telemetry_on.so")
	if stderr, err := exec.Command(compiler, "-shared", "-fPIC", "-o", library, "testdata/telemetry_on.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	nats := localtest.NATS(t).URL()
	p, trace := startTraced(t, nats, "LD_PRELOAD="+library, "ORT_DISABLE_TELEMETRY=")
	useAll(t, nats)
	// ONNX Runtime sends telemetry in the background, at an unknown time.
	connected := func() bool {
		d, err := readTrace(trace, p.cmd.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(d.connections, func(to string) bool { return to != host(t, nats) })
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !connected() {
		select {
		case <-ticker.C:
		case err := <-p.exited:
			t.Fatalf("it ended: %v", err)
		}
	}
	v := strings.Join(finish(t, p, trace).violations([]string{host(t, nats)}, []string{p.cmd.Dir}), "\n")
	for _, want := range []string{"it connected to 127.0.0.1:443", "it changed ", "onnxruntime.db"} {
		if !strings.Contains(v, want) {
			t.Errorf("no %q in what was seen:\n%s", want, v)
		}
	}
}

// TestTraceShowsEveryViolation: the trace shows DNS, TCP and Unix connections, a UDP packet sent
// without a connection, files and folders made, and programs started.
func TestTraceShowsEveryViolation(t *testing.T) {
	stray := filepath.Join(t.TempDir(), "stray")
	p, trace := startTraced(t, "", runMisbehaving+"="+stray)
	d := finish(t, p, trace)
	v := strings.Join(d.violations([]string{"127.0.0.1:1"}, []string{p.cmd.Dir}), "\n")
	for _, want := range []string{
		"it connected to 127.0.0.1:53", "it connected to [::1]:9", "it connected to unix:" + stray, "it connected to 127.0.0.1:9",
		"it changed " + stray, "it changed " + stray + ".dir", "it started programs",
	} {
		if !strings.Contains(v, want) {
			t.Errorf("%q was not seen in\n%s", want, v)
		}
	}
	for _, allowed := range []string{"127.0.0.1:1\n", p.cmd.Dir} {
		if strings.Contains(v, allowed) {
			t.Errorf("%q is allowed, yet told:\n%s", allowed, v)
		}
	}
}
