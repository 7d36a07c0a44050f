package llmgateway

// A tenant's cache of replies is bounded when it asks. This takes from those who do
// not ask any more what is too old to be given.

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/questions"
)

const (
	// forgetEvery is how often old replies are looked for, forgetRows how many one
	// transaction removes.
	forgetEvery = 10 * time.Minute
	forgetRows  = 500
)

// forgetCached removes cached replies that are older than an age, of all tenants, at
// once and then again and again. Any number may run.
func forgetCached(s *questions.QuestionStore, age time.Duration, every time.Duration) lifecycle.Service {
	return lifecycle.NewLoop("sweeper of cached replies", nil, func(fetch, _ context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for n := 1; n > 0 && fetch.Err() == nil; {
				var err error
				if n, err = s.ForgetCached(fetch, age, forgetRows); err != nil && fetch.Err() == nil {
					slog.WarnContext(fetch, "cannot remove old replies from the cache; trying again later", "error", err)
					break
				}
			}
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-tick.C:
			}
		}
	})
}
