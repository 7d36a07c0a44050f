package llmgateway

// A tenant's cache of replies is bounded when it asks. This takes from those who do
// not ask any more what is too old to be given.

import (
	"context"
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
// once and then again and again. One of all leads.
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
