// Package stores combines all stores of a database.
package stores

import (
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/internal/store/auditlog"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/internal/store/choices"
	"github.com/sluice-rag/sluice/internal/store/clusters"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/internal/store/documents"
	"github.com/sluice-rag/sluice/internal/store/evaluations"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/plans"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/search"
	"github.com/sluice-rag/sluice/internal/store/sources"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/internal/store/webhooks"
)

// All are the stores of one database. They read each other's data.
type All struct {
	*store.Store
	*access.AccessStore
	*auditlog.AuditStore
	*blobs.BlobStore
	*choices.ChoiceStore
	*clusters.ClusterStore
	*corpus.CorpusStore
	*documents.DocumentStore
	*evaluations.EvaluationStore
	*ledger.LedgerStore
	*plans.PlanStore
	*questions.QuestionStore
	*search.SearchStore
	*sources.SourceStore
	*tenants.TenantStore
	*webhooks.WebhookStore
}

// Of returns the stores of a database.
func Of(db *store.Store) All {
	return All{
		Store: db, AccessStore: access.New(db), AuditStore: auditlog.New(db), BlobStore: blobs.New(db), ChoiceStore: choices.New(db), ClusterStore: clusters.New(db), CorpusStore: corpus.New(db), DocumentStore: documents.New(db),
		EvaluationStore: evaluations.New(db), LedgerStore: ledger.New(db), PlanStore: plans.New(db),
		QuestionStore: questions.New(db), SearchStore: search.New(db), SourceStore: sources.New(db), TenantStore: tenants.New(db), WebhookStore: webhooks.New(db),
	}
}
