package httpapi

// How many searches and questions of one tenant may be open. Each holds a connection, and costs the database before its
// turn comes: a tenant's flood must end at the door.

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
)

// defaultTenantOpen is how many they are when nothing else is said.
const defaultTenantOpen = 32

// defaultTenantStreams is how many streams are open when nothing else is said. One
// that is silent costs memory alone.
const defaultTenantStreams = 250

// admission counts what is open by tenant.
type admission struct {
	most int
	full string // what is told after their number

	mu   sync.Mutex
	open map[uuid.UUID]int
}

func newAdmission(most int, full string) *admission {
	if most <= 0 {
		most = defaultTenantOpen
	}
	return &admission{most: most, full: full, open: map[uuid.UUID]int{}}
}

// enter lets a request of a tenant in until leave is called, or says that it must come again later.
func (a *admission) enter(tenant uuid.UUID) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[tenant] >= a.most {
		return nil, huma.ErrorWithHeaders(
			huma.Error429TooManyRequests(fmt.Sprintf("%d %s", a.most, a.full)),
			http.Header{"Retry-After": {"1"}})
	}
	a.open[tenant]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.open[tenant]--; a.open[tenant] == 0 {
			delete(a.open, tenant)
		}
	}, nil
}
