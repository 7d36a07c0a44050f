package answer

import (
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// SlowSearch is a search that took long.
type SlowSearch struct {
	Query  wire.SearchQuery
	Plan   string // the plan that ran, if known
	Took   time.Duration
	Stages []schema.StageReport
	Code   string // code of its error
	Trace  string // id
}
