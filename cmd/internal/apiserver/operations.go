package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/schema"
)

// operationAPI reports what the store, NATS and Temporal are working on.
type operationAPI struct {
	questions *questions.QuestionStore
	tenants   *tenants.TenantStore
	nats      *nats.Conn
	hub       *eventHub
	temporal  client.Client // nil: Temporal's address is not set
	namespace string
}

// askTime bounds the wait for one of the parts. The page shows the others without it.
const askTime = 5 * time.Second

// TenantOperations implements httpapi.Operations.
func (o operationAPI) TenantOperations(ctx context.Context, p schema.Principal) (out schema.Operations, err error) {
	if out.Activity, err = o.tenants.Activity(ctx, p); err != nil {
		return out, err
	}
	if out.Slow, err = o.questions.SlowQueries(ctx, p); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out.Queues, err = bus.TenantQueues(ctx, o.nats, p.Tenant)
	if err != nil { // the stored state is returned without it
		slog.WarnContext(ctx, "cannot look up a tenant's queues", "tenant", p.Tenant, "error", err)
		out.Queues = []schema.TenantQueue{}
	}
	return out, nil
}

// Installation implements httpapi.Operations. It queries all parts at once.
func (o operationAPI) Installation(ctx context.Context) (schema.Installation, error) {
	out := schema.Installation{Queues: []schema.QueueState{}, Tasks: []schema.TaskQueue{}, Services: []schema.ServiceState{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	askCtx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	part := func(what string, ask func(context.Context) error) {
		wg.Go(func() {
			if err := ask(askCtx); err != nil {
				slog.WarnContext(ctx, "cannot look up a part of the installation's state", "error", err)
				mu.Lock()
				defer mu.Unlock()
				out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", what, err))
			}
		})
	}
	part("queues", func(ctx context.Context) error { return setList(&mu, &out.Queues)(bus.Queues(ctx, o.nats)) })
	part("services", func(ctx context.Context) error { return setList(&mu, &out.Services)(bus.Services(ctx, o.nats)) })
	if o.temporal != nil {
		part("task queues", func(ctx context.Context) error {
			return setList(&mu, &out.Tasks)(durable.TaskQueues(ctx, o.temporal, o.namespace))
		})
	}
	var err error
	out.Activity, out.Tenants, out.Outbox, err = o.tenants.SystemActivity(ctx)
	if err == nil {
		out.Slow, err = o.questions.SystemSlowQueries(ctx)
	}
	wg.Wait()
	return out, err
}

// setList returns a function that sets *to to a list unless the list is nil, also if it comes with
// an error: the list is partial then.
func setList[T any](mu *sync.Mutex, to *[]T) func([]T, error) error {
	return func(list []T, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if list != nil {
			*to = list
		}
		return err
	}
}
