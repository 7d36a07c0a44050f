package choices

// This file is what workers read and write of a choice. All writes check the choice's state: one
// that has ended is not changed any more.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	unfinishedSQL = `SELECT tenant_id, id FROM plan_choices WHERE state IN ('queued', 'running') ORDER BY created_at LIMIT $1`

	beginChoiceSQL = `
UPDATE plan_choices SET state = 'running', stage = CASE WHEN stage = '' THEN 'questions' ELSE stage END, measuring_at = coalesce(measuring_at, now())
WHERE tenant_id = $1 AND id = $2 AND state IN ('queued', 'running')`
	taskSQL = `
SELECT ` + choiceColumns + `, key_id, groups, plans, labelled, current_plan, alpha, measuring_at FROM plan_choices WHERE tenant_id = $1 AND id = $2`

	lockRunningSQL = `SELECT id FROM plan_choices WHERE tenant_id = $1 AND id = $2 AND state = 'running' FOR UPDATE`

	// Locked until the questions are stored: a later purge finds them.
	lockLivingSQL = `
SELECT d.id FROM (SELECT DISTINCT id FROM unnest($2::uuid[]) AS w (id) ORDER BY id) w
CROSS JOIN LATERAL (SELECT id FROM documents WHERE tenant_id = $1 AND id = w.id AND deleted_at IS NULL LIMIT 1 FOR SHARE) d`
	insertQuestionSQL = `
INSERT INTO plan_choice_questions (tenant_id, choice_id, number, source, question, documents, document_ids, answers, contains, evidence)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	notedQuestionsSQL = `
UPDATE plan_choices SET stage = 'measure', questions = $3, sources = $4, notes = notes || $5::text[], labelled = '[]' WHERE tenant_id = $1 AND id = $2`

	questionsSQL = `
SELECT number, source, question, documents, answers, contains, evidence FROM plan_choice_questions
WHERE tenant_id = $1 AND choice_id = $2 AND number > $3 ORDER BY number LIMIT $4`

	insertFigureSQL = `
INSERT INTO plan_choice_figures (tenant_id, choice_id, number, plan, quality, ndcg, tokens, millis, dollars) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING`
	askedSQL    = `UPDATE plan_choices SET asked = greatest(asked, $3) WHERE tenant_id = $1 AND id = $2`
	leaveOutSQL = `UPDATE plan_choices SET left_out = left_out || $3::jsonb WHERE tenant_id = $1 AND id = $2`
	dropSQL     = `UPDATE plan_choices SET dropped = dropped || $3::text[] WHERE tenant_id = $1 AND id = $2`
	figuresSQL  = `SELECT number, plan, quality, ndcg, tokens, millis, dollars FROM plan_choice_figures WHERE tenant_id = $1 AND choice_id = $2 ORDER BY number, plan`
	finishSQL   = `
UPDATE plan_choices SET state = 'done', stage = '', result = $3, finished_at = now(), recheck_at = CASE WHEN every > 0 THEN now() + every * interval '1 day' END
WHERE tenant_id = $1 AND id = $2 RETURNING recheck`
	failSQL = `
UPDATE plan_choices SET state = 'failed', stage = '', reason = $3, labelled = '[]', finished_at = now(),
       recheck_at = CASE WHEN every > 0 AND recheck > 0 THEN now() + every * interval '1 day' END
WHERE tenant_id = $1 AND id = $2`
)

// maxReason bounds the reason of a failure, in bytes.
const maxReason = 2000

// UnfinishedChoices lists choices of all tenants that have not ended, oldest first.
func (s *ChoiceStore) UnfinishedChoices(ctx context.Context, limit int) ([]wire.PlanChoice, error) {
	var out []wire.PlanChoice
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, unfinishedSQL, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[wire.PlanChoice])
		return err
	})
	return out, store.Wrap(err, "list choices of plans")
}

// BeginChoice implements planchoice.Store.
func (s *ChoiceStore) BeginChoice(ctx context.Context, in wire.PlanChoice) (planchoice.Task, error) {
	var out planchoice.Task
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = planchoice.Task{}
		if _, err := tx.Exec(ctx, beginChoiceSQL, in.Tenant, in.Choice); err != nil {
			return err
		}
		var began *time.Time
		c := &out.PlanChoice
		err := tx.QueryRow(ctx, taskSQL, in.Tenant, in.Choice).Scan(&c.ID, &c.CollectionID, &c.State, &c.Stage, nil, &c.Dropped, &c.LeftOut, &c.Limit,
			&c.Seconds, &c.Sources, &c.Questions, &c.Asked, &c.Notes, &c.Reason, &c.Result, &c.Every, &c.Recheck, &c.NextAt, &c.Applied, &c.CreatedAt, &c.FinishedAt,
			&out.Principal.Key, &out.Principal.Groups, &out.Texts, &out.Labelled, &out.Current, &out.Alpha, &began)
		if err != nil {
			return store.Named(err, "choice of a plan", in.Choice)
		}
		for _, p := range out.Texts {
			c.Plans = append(c.Plans, p.Name)
		}
		out.StartedAt = startedAt(began)
		out.Principal.Tenant, out.Principal.Scopes = in.Tenant, []schema.Scope{schema.ScopeAdmin}
		return nil
	})
	return out, store.Wrap(err, "begin a choice of a plan")
}

// whileRunning runs fn if the choice has not ended, and keeps it from ending meanwhile.
func (s *ChoiceStore) whileRunning(ctx context.Context, in wire.PlanChoice, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, lockRunningSQL, in.Tenant, in.Choice).Scan(&id)
		if store.IsNoRows(err) {
			return errOver
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// SaveQuestions implements planchoice.Store. It leaves out questions from a document that was
// deleted since they were gathered.
func (s *ChoiceStore) SaveQuestions(ctx context.Context, in wire.PlanChoice, questions []planchoice.Gathered, notes []string) error {
	err := s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		kept, err := ofLiving(ctx, tx, in.Tenant, questions)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM plan_choice_questions WHERE tenant_id = $1 AND choice_id = $2`, in.Tenant, in.Choice)
		for _, q := range kept {
			b.Queue(insertQuestionSQL, in.Tenant, in.Choice, q.Number, q.Source, q.Question, store.EmptyNotNull(q.Documents),
				store.EmptyNotNull(q.DocumentIDs), store.EmptyNotNull(q.Answers), store.EmptyNotNull(q.Contains), q.Evidence)
		}
		b.Queue(notedQuestionsSQL, in.Tenant, in.Choice, len(kept), sourcesOf(kept), store.EmptyNotNull(notes))
		return tx.SendBatch(ctx, b).Close()
	})
	return store.Wrap(err, "keep %d questions", len(questions))
}

// ofLiving returns the questions none of whose documents was deleted, and keeps these documents
// from being deleted in this transaction.
func ofLiving(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, questions []planchoice.Gathered) ([]planchoice.Gathered, error) {
	var documents []uuid.UUID
	for _, q := range questions {
		documents = append(documents, q.DocumentIDs...)
	}
	ids, err := store.IDs(tx.Query(ctx, lockLivingSQL, tenant, documents))
	if err != nil {
		return nil, fmt.Errorf("lock the documents of questions: %w", err)
	}
	living := map[uuid.UUID]bool{}
	for _, id := range ids {
		living[id] = true
	}
	deleted := func(id uuid.UUID) bool { return !living[id] }
	var kept []planchoice.Gathered
	for _, q := range questions {
		if !slices.ContainsFunc(q.DocumentIDs, deleted) {
			kept = append(kept, q)
		}
	}
	return kept, nil
}

// sourcesOf counts questions by their sources.
func sourcesOf(questions []planchoice.Gathered) []schema.SourceCount {
	counts := map[schema.QuestionSource]int{}
	for _, q := range questions {
		counts[q.Source]++
	}
	sources := []schema.SourceCount{}
	for _, source := range schema.QuestionSources {
		if n := counts[source]; n > 0 {
			sources = append(sources, schema.SourceCount{Source: source, Questions: n})
		}
	}
	return sources
}

// importedSQL draws imported questions in a random order that the seed $3 determines.
const importedSQL = `
SELECT question, answers FROM imported_questions WHERE tenant_id = $1 AND collection_id = $2 ORDER BY md5(encode(hash, 'hex') || $3::text) LIMIT $4`

// ImportedQuestions implements planchoice.Store.
func (s *ChoiceStore) ImportedQuestions(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]schema.LabelledQuestion, error) {
	var out []schema.LabelledQuestion
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, importedSQL, p.Tenant, collection, seed.String(), limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (q schema.LabelledQuestion, err error) {
			err = row.Scan(&q.Question, &q.Answers)
			return q, err
		})
		return err
	})
	return out, store.Wrap(err, "read the imported questions of collection %s", collection)
}

// ChoiceQuestions implements planchoice.Store.
func (s *ChoiceStore) ChoiceQuestions(ctx context.Context, in wire.PlanChoice, after, limit int) ([]schema.ChoiceQuestion, error) {
	var out []schema.ChoiceQuestion
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, questionsSQL, in.Tenant, in.Choice, after, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanQuestion)
		return err
	})
	return out, store.Wrap(err, "read questions of a choice")
}

// SaveFigures implements planchoice.Store.
func (s *ChoiceStore) SaveFigures(ctx context.Context, in wire.PlanChoice, number int, figures []planchoice.Figure) error {
	err := s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		for _, f := range figures {
			b.Queue(insertFigureSQL, in.Tenant, in.Choice, f.Number, f.Plan, f.Quality, f.NDCG, f.Tokens, f.Millis, f.Dollars)
		}
		b.Queue(askedSQL, in.Tenant, in.Choice, number)
		return tx.SendBatch(ctx, b).Close()
	})
	return store.Wrap(err, "keep what question %d gave", number)
}

// LeaveOut implements planchoice.Store.
func (s *ChoiceStore) LeaveOut(ctx context.Context, in wire.PlanChoice, plans []schema.LeftOut) error {
	return store.Wrap(s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, leaveOutSQL, in.Tenant, in.Choice, plans)
		return err
	}), "leave plans out of a choice")
}

// DropPlans implements planchoice.Store.
func (s *ChoiceStore) DropPlans(ctx context.Context, in wire.PlanChoice, plans []string) error {
	return store.Wrap(s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, dropSQL, in.Tenant, in.Choice, plans)
		return err
	}), "drop plans of a choice")
}

// Figures implements planchoice.Store.
func (s *ChoiceStore) Figures(ctx context.Context, in wire.PlanChoice) ([]planchoice.Figure, error) {
	var out []planchoice.Figure
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, figuresSQL, in.Tenant, in.Choice)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[planchoice.Figure])
		return err
	})
	return out, store.Wrap(err, "read the figures of a choice")
}

// FinishChoice implements planchoice.Store.
func (s *ChoiceStore) FinishChoice(ctx context.Context, in wire.PlanChoice, result schema.PlanVerdicts) error {
	return store.Wrap(s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		recheck := 0
		if err := tx.QueryRow(ctx, finishSQL, in.Tenant, in.Choice, result).Scan(&recheck); err != nil || recheck == 0 || !result.Better {
			return err
		}
		var o store.Outbox
		o.BetterPlan(in.Tenant, in.Choice)
		b := &pgx.Batch{}
		o.Queue(ctx, b)
		return tx.SendBatch(ctx, b).Close()
	}), "finish a choice of a plan")
}

// FailChoice implements planchoice.Store.
func (s *ChoiceStore) FailChoice(ctx context.Context, in wire.PlanChoice, reason string) error {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return store.Wrap(s.whileRunning(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, failSQL, in.Tenant, in.Choice, text.Clean(reason))
		return err
	}), "fail a choice of a plan")
}

var (
	sampleDocumentsSQL = `
SELECT d.id FROM documents d
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
  AND ` + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3") + `
ORDER BY md5(d.id::text || $4::text) LIMIT $5`

	sampleSectionsSQL = `
SELECT d.id, d.external_id, v.title, s.id, s.ordinal, s.heading_path, s.body FROM documents d
JOIN versions v ON v.tenant_id = $1 AND v.id = d.live_version_id
JOIN sections s ON s.tenant_id = $1 AND s.version_id = d.live_version_id
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND ` + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3") + `
ORDER BY md5(s.id::text || $4::text) LIMIT $5`

	documentsNamedSQL = `
SELECT d.external_id, d.id FROM documents d
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.external_id = ANY ($4) AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
  AND ` + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3")
)

// SampleDocuments implements planchoice.Store.
func (s *ChoiceStore) SampleDocuments(ctx context.Context, p schema.Principal, collection, seed uuid.UUID, limit int) ([]uuid.UUID, error) {
	var out []uuid.UUID
	err := s.db.In(store.Batch).AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = store.IDs(tx.Query(ctx, sampleDocumentsSQL, p.Tenant, collection, store.GroupsOf(p), seed.String(), limit))
		return err
	})
	return out, store.Wrap(err, "draw documents of collection %s", collection)
}

// SampleSections implements planchoice.Store.
func (s *ChoiceStore) SampleSections(ctx context.Context, p schema.Principal, document, seed uuid.UUID, limit int) ([]planchoice.Sampled, error) {
	var out []planchoice.Sampled
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sampleSectionsSQL, p.Tenant, document, store.GroupsOf(p), seed.String(), limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (x planchoice.Sampled, err error) {
			err = row.Scan(&x.Document, &x.ExternalID, &x.Title, &x.Section.ID, &x.Section.Ordinal, &x.Section.HeadingPath, &x.Section.Text)
			return x, err
		})
		return err
	})
	return out, store.Wrap(err, "draw sections of document %s", document)
}

// DocumentsNamed implements planchoice.Store.
func (s *ChoiceStore) DocumentsNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalIDs []string) (map[string]uuid.UUID, error) {
	out := map[string]uuid.UUID{}
	for chunk := range slices.Chunk(externalIDs, 1000) {
		err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, documentsNamedSQL, p.Tenant, collection, store.GroupsOf(p), chunk)
			if err != nil {
				return err
			}
			var name string
			var id uuid.UUID
			_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error {
				out[name] = id
				return nil
			})
			return err
		})
		if err != nil {
			return nil, store.Wrap(err, "look documents up by their names")
		}
	}
	return out, nil
}
