package httpapi

// How many searches, questions and streams of one tenant may be open, and how many uploads of one
// key and of this process. A search holds a connection, and costs the database before it has a
// slot; an upload takes disk. A flood must end at the door.

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
	// defaultTenantOpen is how many searches and questions of a tenant are open when nothing else
	// is said.
	defaultTenantOpen = 32
	// defaultTenantStreams is how many streams are open when nothing else is said. One that is
	// silent costs memory alone.
	defaultTenantStreams = 250
)

// Uploads under way.
var (
	uploadsOfKey = fairness.Amount{Count: 16, Bytes: 1 << 30}
	uploadsOfAll = fairness.Amount{Count: 64, Bytes: 4 << 30}
)

// admission lets requests in.
type admission struct {
	*fairness.Semaphore
	full func(held fairness.Amount) string // the message for a tenant, or key, that has reached its limit
}

// newAdmission limits the open requests of each tenant.
func newAdmission(most int, what string) *admission {
	return &admission{fairness.NewSemaphore(fairness.Amount{Count: most}, fairness.Amount{}), func(held fairness.Amount) string {
		return fmt.Sprintf("%d %s", held.Count, what)
	}}
}

func newUploads() *admission {
	return &admission{fairness.NewSemaphore(uploadsOfKey, uploadsOfAll), func(held fairness.Amount) string {
		return fmt.Sprintf("%d uploads with %s of this key are under way, with this one more than may be; try again when one has ended",
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
		return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests(a.full(full.Held)), again)
	default:
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			"as many uploads are under way as this server takes; try again when one has ended"), again)
	}
}
