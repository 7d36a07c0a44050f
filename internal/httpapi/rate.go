package httpapi

// Rate limits of one key and of one tenant in this process. For limits of concurrent requests see
// admission.go.

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/sluice-rag/sluice/schema"
)

// burstTime is how long the unused requests of a key or tenant add up.
const burstTime = 10 * time.Second

// rateLimiter limits the requests of each key, or each tenant.
type rateLimiter struct {
	limit     rate.Limit
	burst     int
	subject   string
	perMinute int // a minute; 0: no limit

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
	pruned  time.Time
}

// newRateLimiter limits requests to perMinute a minute; 0: no limit.
func newRateLimiter(perMinute int, subject string) *rateLimiter {
	burst := max(1, int(float64(perMinute)*burstTime.Minutes()))
	return &rateLimiter{limit: rate.Limit(float64(perMinute) / time.Minute.Seconds()), burst: burst, subject: subject, perMinute: perMinute, buckets: map[uuid.UUID]*rate.Limiter{}}
}

// reserve counts a request and returns 0, or returns how long to wait for the next one. undo takes
// the count back.
func (r *rateLimiter) reserve(id uuid.UUID, now time.Time) (wait time.Duration, undo func()) {
	if r.perMinute <= 0 || id == uuid.Nil {
		return 0, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.pruned) >= time.Minute {
		r.pruned = now
		for id, b := range r.buckets {
			if b.TokensAt(now) >= float64(r.burst) { // no different from a new one
				delete(r.buckets, id)
			}
		}
	}
	b := r.buckets[id]
	if b == nil {
		b = rate.NewLimiter(r.limit, r.burst)
		r.buckets[id] = b
	}
	taken := b.ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return wait, func() {}
	}
	return 0, func() { taken.CancelAt(now) }
}

// admit counts a request of a key and of its tenant, or returns an error that says when to retry.
func (s *server) admit(p schema.Principal, now time.Time) error {
	wait, undo := s.keyRate.reserve(p.Key, now)
	if wait > 0 {
		return s.keyRate.refusal(wait)
	}
	if wait, _ := s.tenantRate.reserve(p.Tenant, now); wait > 0 {
		undo()
		return s.tenantRate.refusal(wait)
	}
	return nil
}

func (r *rateLimiter) refusal(wait time.Duration) error {
	return huma.ErrorWithHeaders(huma.Error429TooManyRequests(fmt.Sprintf("this %s may send %d requests a minute; try again later", r.subject, r.perMinute)),
		http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}})
}
