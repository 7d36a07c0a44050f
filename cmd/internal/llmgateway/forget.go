package llmgateway

// A tenant's cache of replies is trimmed when the tenant makes a call. For tenants that make no
// more calls, this removes replies that are too old to be used.

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/questions"
)

const (
	// forgetEvery is the interval between checks for old replies. forgetRows is the maximum number
	// that one transaction removes.
	forgetEvery = 10 * time.Minute
	forgetRows  = 500
)

// forgetCached removes cached replies of all tenants that are older than age, at once and then
// every interval. One gateway at a time, the leader, runs it.
func forgetCached(s *questions.QuestionStore, elector lifecycle.Elector, age time.Duration, every time.Duration) lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "sweeper of cached replies", Elector: elector, Every: every, Round: func(fetch, _ context.Context) error {
		for fetch.Err() == nil {
			if n, err := s.ForgetCached(fetch, age, forgetRows); n == 0 || err != nil {
				return err
			}
		}
		return nil
	}})
}
