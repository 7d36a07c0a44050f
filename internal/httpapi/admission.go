package httpapi

// How many searches, questions and streams of one tenant may be open, and how many uploads of one key and of this process.
// A search holds a connection, and costs the database before it has a slot; an upload takes disk. A flood must end at the
// door.

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
	// defaultTenantOpen is how many searches and questions of a tenant are open when nothing else is said.
	defaultTenantOpen = 32
	// defaultTenantStreams is how many streams are open when nothing else is said. One that is silent costs memory alone.
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
	full func(held fairness.Amount) string // what is told of the tenant's, or key's, own
}

// openOf bounds how many requests of a tenant are open.
func openOf(most int, what string) *admission {
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

// enter lets a request of a tenant, or key, in until leave is called, or says that it must come again later. A tenant's own
// excess is told apart from that of all.
func (a *admission) enter(id uuid.UUID, bytes int64) (leave func(), err error) {
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
