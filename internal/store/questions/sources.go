package questions

// This file checks stored answers against the current labels of their sources. An answer's text is
// made from everything that was read for it, so one source that its reader may not see withholds
// the whole answer.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// hiddenSourcesSQL finds those of the questions in $2 with a source that the groups in $3 may not
// see, or whose document is deleted. Each source is looked up by its id, since there are few.
// Whether its collection is deleted is a column, since a join with collections might start from all
// of the tenant's.
var hiddenSourcesSQL = `
WITH sources AS MATERIALIZED (
    SELECT question_id, version_id FROM citations WHERE tenant_id = $1 AND question_id = ANY ($2)
    UNION
    SELECT question_id, version_id FROM retrieval_versions WHERE tenant_id = $1 AND question_id = ANY ($2)
)
SELECT DISTINCT s.question_id FROM sources s
WHERE (SELECT d.living AND ` + store.ReadableNow("d.version", "$3") + ` FROM (
           SELECT v.id AS version, d.live_version_id, ` + store.OfLiving + ` AS living
           FROM versions v JOIN documents d ON d.tenant_id = $1 AND d.id = v.document_id AND d.deleted_at IS NULL
           WHERE v.tenant_id = $1 AND v.id = s.version_id OFFSET 0) d) IS NOT TRUE`

// hiddenSources returns those of the questions whose answers p may not read.
func hiddenSources(ctx context.Context, tx pgx.Tx, p schema.Principal, questions []uuid.UUID) (map[uuid.UUID]bool, error) {
	found, err := store.IDs(tx.Query(ctx, hiddenSourcesSQL, p.Tenant, questions, store.GroupsOf(p)))
	if err != nil {
		return nil, fmt.Errorf("look up the sources of answers: %w", err)
	}
	out := make(map[uuid.UUID]bool, len(found))
	for _, id := range found {
		out[id] = true
	}
	return out, nil
}

// SourcesHidden reports whether p may not see some of what was read for a question.
func (s *QuestionStore) SourcesHidden(ctx context.Context, p schema.Principal, question uuid.UUID) (bool, error) {
	var hidden bool
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		found, err := hiddenSources(ctx, tx, p, []uuid.UUID{question})
		hidden = found[question]
		return err
	})
	return hidden, store.Wrap(err, "question %s", question)
}

// ReadAnswer returns the answer of a question as p may read it.
func ReadAnswer(ctx context.Context, tx pgx.Tx, p schema.Principal, question uuid.UUID) (schema.Answer, error) {
	a, err := loadAnswer(ctx, tx, p.Tenant, question)
	if err != nil {
		return a, err
	}
	hidden, err := hiddenSources(ctx, tx, p, []uuid.UUID{question})
	if hidden[question] {
		a = a.Withhold()
	}
	return a, err
}

// withhold removes the answers that p may not read.
func withhold(ctx context.Context, tx pgx.Tx, p schema.Principal, rated []schema.RatedAnswer) error {
	questions := make([]uuid.UUID, len(rated))
	for i, r := range rated {
		questions[i] = r.Question
	}
	hidden, err := hiddenSources(ctx, tx, p, questions)
	for i, r := range rated {
		if hidden[r.Question] {
			rated[i] = r.Withhold()
		}
	}
	return err
}
