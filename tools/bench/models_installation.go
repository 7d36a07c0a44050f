package main

// This file starts the model server that is measured, with a NATS server, and reads its metrics.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/common/model"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

// modelInstallation is a running model server with its own NATS server.
type modelInstallation struct {
	dir    string
	nats   *server
	nc     *nats.Conn
	models *exec.Cmd
	stdin  io.WriteCloser
	health string // address of the health checks and metrics
	client *modelclient.Client
	info   wire.ModelInfo
}

// newModelInstallation starts everything, with more arguments for the model server. If it fails,
// nothing is left running.
func newModelInstallation(ctx context.Context, program, pack string, more ...string) (_ *modelInstallation, err error) {
	if program, err = siblingProgram(program, "gpu-segmenter"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `make build` makes it", err)
	}
	if pack != "" {
		if pack, err = filepath.Abs(pack); err != nil {
			return nil, fmt.Errorf("model pack: %w", err)
		}
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	b := &modelInstallation{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var url string
	if b.nats, url, err = start(ctx, dir, "nats", nil, self, "nats", filepath.Join(dir, "nats")); err != nil {
		return nil, err
	}
	if b.nc, err = nats.Connect(url); err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if b.health, err = freeAddress(); err != nil {
		return nil, err
	}
	b.models = exec.Command(program, append(more, "--with-parent", "--health-listen="+b.health, "--log-level=error")...)
	// One thread per run, as in the other program.
	b.models.Env = append(environment(), "SLUICE_NATS_URL="+url, "SLUICE_MODEL_THREADS=1")
	if pack != "" {
		b.models.Env = append(b.models.Env, "SLUICE_MODEL_PACK="+pack)
	}
	b.models.Stderr = os.Stderr
	b.models.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if b.stdin, err = b.models.StdinPipe(); err == nil {
		err = b.models.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start gpu-segmenter: %w", err)
	}
	b.client = modelclient.New(b.nc, modelclient.Options{Log: slog.New(slog.DiscardHandler)})
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if b.info, err = b.client.Info(starting); err != nil {
		return nil, fmt.Errorf("start gpu-segmenter: %w", err)
	}
	return b, nil
}

// freeAddress returns an address on which nothing listens.
func freeAddress() (string, error) {
	port, err := local.FreePort()
	return net.JoinHostPort(local.Host, strconv.Itoa(port)), err
}

func (b *modelInstallation) can(op wire.ModelOp) bool { return slices.Contains(b.info.Operations, op) }

// close stops everything and removes its directory.
func (b *modelInstallation) close() error {
	var errs []error
	if b.models != nil && b.models.Process != nil {
		_ = b.stdin.Close() // as if its parent had ended
		kill := time.AfterFunc(stopTime, func() { _ = b.models.Process.Kill() })
		if err := b.models.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("stop gpu-segmenter: %w", err))
		}
		kill.Stop()
	}
	if b.nc != nil {
		b.nc.Close()
	}
	if b.nats != nil {
		errs = append(errs, b.nats.stop())
	}
	if err := os.RemoveAll(b.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove what was measured: %w", err))
	}
	return errors.Join(errs...)
}

// modelSnapshot has the totals of the model server's metrics at one moment.
type modelSnapshot struct {
	cpu           float64            // seconds of processor time
	text, padding map[string]float64 // tokens run, by graph
	runs, running map[string]float64 // batches and their seconds, by graph
	tokenising    float64            // seconds
}

// snapshot reads the server's metrics and its processor time.
func (b *modelInstallation) snapshot(ctx context.Context) (modelSnapshot, error) {
	l := modelSnapshot{text: map[string]float64{}, padding: map[string]float64{}, runs: map[string]float64{}, running: map[string]float64{}}
	all, err := processes()
	if err != nil {
		return l, err
	}
	l.cpu = all[b.models.Process.Pid].own
	samples, err := scrape(ctx, "http://"+b.health)
	if err != nil {
		return l, err
	}
	for _, s := range samples {
		name, graph, v := s.Metric[model.MetricNameLabel], string(s.Metric["graph"]), float64(s.Value)
		switch {
		case name == "sluice_model_tokens_total" && s.Metric["kind"] == "text":
			l.text[graph] += v
		case name == "sluice_model_tokens_total":
			l.padding[graph] += v
		case name == "sluice_model_run_duration_seconds_count":
			l.runs[graph] += v
		case name == "sluice_model_run_duration_seconds_sum":
			l.running[graph] += v
		case name == "sluice_model_tokenise_duration_seconds_sum":
			l.tokenising += v
		}
	}
	if len(l.text) == 0 && l.tokenising > 0 {
		return l, errors.New("read metrics: gpu-segmenter counts no tokens")
	}
	return l, nil
}

// tokenisingSince returns the share of tokenising in the time spent on tokenising and running
// graphs.
func (l modelSnapshot) tokenisingSince(before modelSnapshot) float64 {
	tokenising, running := l.tokenising-before.tokenising, 0.0
	for graph := range l.running {
		running += l.running[graph] - before.running[graph]
	}
	return tokenising / (tokenising + running)
}
