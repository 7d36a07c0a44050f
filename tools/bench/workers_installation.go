package main

// This file starts what the part workers measures: each program as processes of its own, with
// PostgreSQL, NATS and Temporal, and any number of processes per program.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/store/tenants"
)

// workersInstallation is a Sluice of several programs.
type workersInstallation struct {
	*workbench
	nats     *server
	url      string // address of NATS
	nc       *nats.Conn
	temporal *local.Temporal
	serve    *server
	api      *apiclient.Client
	programs string   // folder of the programs
	settings []string // environment of all programs
	started  int
	running  map[string][]*server // by program
	models   *waitingModels
	service  atomic.Int64 // nanoseconds that a request to the models takes
}

// newWorkersInstallation starts everything but the workers. If it fails, nothing is left running.
func newWorkersInstallation(ctx context.Context, programs string) (_ *workersInstallation, err error) {
	b := &workersInstallation{programs: programs, running: map[string][]*server{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.workbench, err = newWorkbench(ctx, ""); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if b.nats, b.url, err = start(ctx, b.dir, "nats", nil, self, "nats", filepath.Join(b.dir, "nats")); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if b.nc, err = bus.Connect(starting, bus.Options{URL: b.url, Name: "bench"}); err != nil {
		return nil, err
	}
	if b.models, err = newWaitingModels(b.nc, &b.service, 0); err != nil {
		return nil, err
	}
	if b.temporal, err = local.StartTemporal(starting, local.TemporalOptions{Dir: filepath.Join(b.dir, "temporal")}); err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	b.settings = []string{"SLUICE_DATABASE_URL=" + b.postgres.URL(), "SLUICE_DATABASE_VECTOR_URL=" + b.postgres.VectorURL(local.Database),
		"SLUICE_NATS_URL=" + b.url, "SLUICE_TEMPORAL_ADDRESS=" + b.temporal.Address(), "SLUICE_LOG_LEVEL=warn"}
	key, _, err := auth.New(tenants.New(b.store.Store)).EnsureBootstrap(starting, "workers")
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// Allow as many concurrent searches as there are callers.
	settings := append([]string{"SLUICE_LISTEN=" + address, "SLUICE_TENANT_SEARCHES=1000"}, b.settings...)
	if b.serve, err = launch(b.dir, "serve", settings, filepath.Join(programs, "sluice"), "serve"); err != nil {
		return nil, err
	}
	if err := b.serve.ready(starting, "http://"+address+"/readyz"); err != nil {
		return nil, err
	}
	transport := keepAlive(1000)
	b.api = apiclient.Over(&http.Client{Transport: transport}, "http://"+address, key)
	return b, nil
}

// ready waits until a child's health check at an address succeeds.
func (s *server) ready(ctx context.Context, url string) error {
	name := filepath.Base(s.cmd.Path)
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		if reply, err := http.DefaultClient.Do(request); err == nil {
			_ = reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.printed:
			if s.failed != nil {
				return fmt.Errorf("start %s: it ended before it was ready\n%s", name, s.logTail())
			}
		default:
		}
		if err := pauseFor(ctx, pollInterval); err != nil {
			return fmt.Errorf("start %s: %w\n%s", name, err, s.logTail())
		}
	}
}

// scale runs count processes of a program, new ones with more settings, and returns when all are
// ready.
func (b *workersInstallation) scale(ctx context.Context, program string, count int, settings ...string) error {
	var errs []error
	for len(b.running[program]) > count {
		last := len(b.running[program]) - 1
		errs = append(errs, b.running[program][last].stop())
		b.running[program] = b.running[program][:last]
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it is not ready after %s", startTime))
	defer cancel()
	var addresses []string
	from := len(b.running[program])
	for len(b.running[program]) < count {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		b.started++
		all := append(append([]string{"SLUICE_HEALTH_LISTEN=" + address}, b.settings...), settings...)
		s, err := launch(b.dir, fmt.Sprintf("%s-%d", program, b.started), all, filepath.Join(b.programs, program))
		if err != nil {
			return err
		}
		b.running[program] = append(b.running[program], s)
		addresses = append(addresses, address)
	}
	for i, address := range addresses {
		if err := b.running[program][from+i].ready(starting, "http://"+address+"/readyz"); err != nil {
			return err
		}
	}
	return nil
}

// spent returns the processor time, in seconds, of all processes that this process has started.
// None of its children may end between two readings.
func (b *workersInstallation) spent() (float64, error) {
	all, err := processes()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range below(all, os.Getpid()) {
		if p.pid != os.Getpid() {
			sum += p.own + p.reaped
		}
	}
	return sum, nil
}

// close stops everything and removes its directory.
func (b *workersInstallation) close() error {
	var errs []error
	for program := range b.running {
		errs = append(errs, b.scale(context.Background(), program, 0))
	}
	if b.serve != nil {
		errs = append(errs, b.serve.stop())
	}
	if b.temporal != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		errs = append(errs, b.temporal.Stop(ctx))
	}
	if b.models != nil {
		errs = append(errs, b.models.close())
	}
	if b.nc != nil {
		b.nc.Close()
	}
	if b.nats != nil {
		errs = append(errs, b.nats.stop())
	}
	if b.workbench != nil {
		errs = append(errs, b.workbench.close())
	}
	return errors.Join(errs...)
}
