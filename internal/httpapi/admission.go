package httpapi

// Limits of the open searches, questions and streams of one tenant, and of the concurrent uploads
// of one key and of this process. A search uses a connection, and costs the database even before it
// has a slot; an upload uses disk space. A flood of requests must be refused before it costs
// anything.

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// defaultTenantOpen is the default limit of a tenant's open searches and questions.
	defaultTenantOpen = 32
	// defaultTenantStreams is the default limit of a tenant's open streams. An idle stream costs
	// only memory.
	defaultTenantStreams = 250
)

// Limits of concurrent uploads.
var (
	uploadsOfKey = fairness.Amount{Count: 16, Bytes: 1 << 30}
	uploadsOfAll = fairness.Amount{Count: 64, Bytes: 4 << 30}
)

// admission limits concurrent requests.
type admission struct {
	*fairness.Semaphore
	full func(held fairness.Amount) string // the message for a tenant, or key, that has reached its limit
}

// newAdmission limits the open requests of each tenant to limit.
func newAdmission(limit int, what string) *admission {
	return &admission{fairness.NewSemaphore(fairness.Amount{Count: limit}, fairness.Amount{}), func(held fairness.Amount) string {
		return fmt.Sprintf("%d %s", held.Count, what)
	}}
}

func newUploads() *admission {
	return &admission{fairness.NewSemaphore(uploadsOfKey, uploadsOfAll), func(held fairness.Amount) string {
		return fmt.Sprintf("%d uploads with %s of this key are in progress, and this one would exceed the limit; try again when one has ended",
			held.Count, schema.FormatBytes(int64(held.Bytes)))
	}}
}

// acquire admits a request of a tenant, or key, until release is called, or returns an error with
// Retry-After: 429 where the tenant or key has reached its limit, 503 where the server has.
func (a *admission) acquire(id uuid.UUID, bytes int64) (release func(), err error) {
	n, again := fairness.Amount{Count: 1, Bytes: int(bytes)}, http.Header{"Retry-After": {"1"}}
	switch full := a.Acquire(id, n, false); {
	case full == nil:
		return sync.OnceFunc(func() { a.Release(id, n) }), nil
	case full.OfTenant:
		return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests(a.full(full.InUse)), again)
	default:
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			"the server has reached its limit of concurrent uploads; try again when one has ended"), again)
	}
}
