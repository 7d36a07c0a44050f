package ingestworker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/stores"
)

// purgeRows is the maximum number of rows that one transaction purges.
const purgeRows = 200

// forgetRows is the maximum number of small rows, such as the ledger's, that one transaction
// removes. forgetQuestions is the maximum number of questions, which are removed with everything
// that belongs to them.
const (
	forgetRows      = 2000
	forgetQuestions = 200
)

// emptyLoop retires the documents of deleted collections. One worker at a time, the leader, runs
// it.
func emptyLoop(s stores.All) lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "emptier of deleted collections", Elector: s, Every: emptyEvery, Round: func(fetch, _ context.Context) error {
		for fetch.Err() == nil {
			if n, err := s.EmptyCollections(fetch, emptyDocuments); n == 0 || err != nil {
				return err
			}
		}
		return nil
	}})
}

// emptyEvery is the interval between checks for deleted collections. emptyDocuments is the maximum
// number of documents that retire in one transaction.
const (
	emptyEvery     = 2 * time.Second
	emptyDocuments = 500
)

// recountAge is the age at which a tenant's counts of documents and bytes are recomputed.
// recountTenants is the maximum number of tenants per round.
const (
	recountAge     = 24 * time.Hour
	recountTenants = 10
)

var purged = newPurged()

func newPurged() metric.Int64Counter {
	c, _ := otel.Meter("github.com/sluice-rag/sluice/cmd/internal/ingestworker").Int64Counter("sluice.purge.rows",
		metric.WithUnit("{row}"), metric.WithDescription("Rows that were purged."))
	return c
}

// purger deletes data that was deleted or replaced, and entries of the ledger, questions and
// entries of the audit log whose retention has ended. It also creates the audit log's partitions
// for the next months, and corrects the stored counts of tenants' documents and bytes. One worker
// at a time, the leader, runs it.
func purger(s stores.All, every time.Duration, keepCalls ledger.Retention, keepQuestions questions.QuestionRetention,
	keepAudit, keepReads int) lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "purger", Elector: s, Every: every, Round: func(fetch, _ context.Context) error {
		if err := s.MakeAuditMonths(fetch); err != nil {
			slog.ErrorContext(fetch, "cannot create the partitions of the audit log for the next months' reads", "error", err)
		}
		for fetch.Err() == nil {
			n, err := s.PurgeOnce(fetch, purgeRows)
			forgotten, forgetting := s.ForgetCalls(fetch, keepCalls, forgetRows)
			old, forgettingQuestions := s.ForgetQuestions(fetch, keepQuestions, forgetQuestions)
			audited, forgettingAudit := s.ForgetAudit(fetch, keepAudit, forgetRows)
			month, forgettingReads := s.ForgetReads(fetch, keepReads)
			if month != "" {
				slog.InfoContext(fetch, "deleted a month of reads from the audit log", "partition", month)
				audited++
			}
			if old+audited > 0 {
				slog.InfoContext(fetch, "deleted what is past its retention time", "questions_and_retrievals", old, "audit_entries", audited)
			}
			n, err = n+forgotten+old+audited, errors.Join(err, forgetting, forgettingQuestions, forgettingAudit, forgettingReads)
			purged.Add(fetch, int64(n))
			if n == 0 || err != nil {
				_, counting := s.RecountStored(fetch, recountAge, recountTenants)
				return errors.Join(err, counting)
			}
			slog.DebugContext(fetch, "purged", "rows", n)
		}
		return nil
	}})
}
