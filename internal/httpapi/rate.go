package httpapi

// How many requests of one key, and of one tenant, this process takes in a while. How many may be
// open at a time is another matter: admission.go.

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

// burstTime is how long a key or tenant that was silent may save its requests.
const burstTime = 10 * time.Second

// rates bounds the requests of each of many.
type rates struct {
	limit rate.Limit
	burst int
	whose string
	most  int // a minute

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
	pruned  time.Time
}

// ratesOf bounds requests to so many a minute; 0: there is no bound.
func ratesOf(perMinute int, whose string) *rates {
	burst := max(1, int(float64(perMinute)*burstTime.Minutes()))
	return &rates{limit: rate.Limit(float64(perMinute) / time.Minute.Seconds()), burst: burst, whose: whose, most: perMinute, buckets: map[uuid.UUID]*rate.Limiter{}}
}

// take counts a request, unless it comes too soon: then it says how long to wait, else 0. undo
// takes it back.
func (r *rates) take(id uuid.UUID, now time.Time) (wait time.Duration, undo func()) {
	if r.most <= 0 || id == uuid.Nil {
		return 0, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.pruned) >= time.Minute {
		r.pruned = now
		for id, b := range r.buckets {
			if b.TokensAt(now) >= float64(r.burst) { // as a new one
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

// admit counts a request of a key and of its tenant, or says when it may come again.
func (s *server) admit(p schema.Principal, now time.Time) error {
	wait, undo := s.keyRate.take(p.Key, now)
	if wait > 0 {
		return s.keyRate.refusal(wait)
	}
	if wait, _ := s.tenantRate.take(p.Tenant, now); wait > 0 {
		undo()
		return s.tenantRate.refusal(wait)
	}
	return nil
}

func (r *rates) refusal(wait time.Duration) error {
	return huma.ErrorWithHeaders(huma.Error429TooManyRequests(fmt.Sprintf("this %s may send %d requests a minute; try again later", r.whose, r.most)),
		http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(wait.Seconds())))}})
}
