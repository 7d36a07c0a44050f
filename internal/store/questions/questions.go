// Package questions keeps questions, the results of the steps of answering them, their answers and
// ratings, and which searches were slow. Every write checks state and attempt: a question that has
// ended, or that another attempt owns, is not changed.
package questions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// QuestionStore keeps the tenants' questions.
type QuestionStore struct{ db *store.Store }

// New returns the QuestionStore of a database.
func New(db *store.Store) *QuestionStore { return &QuestionStore{db} }

// NewQuestion is a question to be stored.
type NewQuestion struct {
	ID uuid.UUID // generated when nil
	schema.Query
	// Async questions are queued; the others wait for the AskRequest that names them.
	Async bool
	// Until is when the asker of a synchronous question stops waiting; zero: not known.
	Until time.Time
	Trace string // traceparent of the request
}

// CreateQuestion stores a question of p, with p's current groups. It queues an asynchronous
// question in the same transaction. The error is schema.ErrNotFound for an unknown collection.
func (s *QuestionStore) CreateQuestion(ctx context.Context, p schema.Principal, q NewQuestion) (schema.Job, error) {
	if err := errors.Join(schema.CheckCharacters("question", q.Text, 1, schema.MaxQuestion), schema.CheckLength("plan", q.Plan, 0, schema.MaxPlanName),
		schema.CheckLength("plan_text", q.PlanText, 0, schema.MaxPlanText), q.Filter.Validate()); err != nil {
		return schema.Job{}, err
	}
	if err := schema.CheckCharacters("question", q.Asked, 0, schema.MaxQuestion); err != nil {
		return schema.Job{}, err
	}
	if q.K < 0 {
		return schema.Job{}, schema.Invalid("k", "%d is negative", q.K)
	}
	if q.Risk != nil && !(*q.Risk >= 0 && *q.Risk <= 1) {
		return schema.Job{}, schema.Invalid("risk", "%g is not a probability from 0 to 1", *q.Risk)
	}
	for i, c := range q.Choices {
		if err := schema.CheckLength(fmt.Sprintf("choices[%d]", i), c, 1, schema.MaxChoice); err != nil {
			return schema.Job{}, err
		}
	}
	if q.ID == uuid.Nil {
		q.ID = schema.NewID()
	}
	filter, err := json.Marshal(q.Filter)
	if err != nil {
		return schema.Job{}, fmt.Errorf("encode the filter: %w", err)
	}
	job := schema.Job{ID: q.ID, Collection: q.Collection, Question: q.Original(), Choices: q.Choices, Plan: q.Plan, State: schema.JobQueued}
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			INSERT INTO questions (tenant_id, id, collection_id, question, plan, filter, k, key_id, groups, async, state, trace, choices, plan_text, person, waited_until, risk, asked)
			SELECT $1, $2, c.id, $4, $5, $6, $7, $8, $9, $10, 'queued', nullif($11, ''), $12, $13, $14, now() + $15::interval, $16, nullif($17, '')
			FROM collections c WHERE c.tenant_id = $1 AND c.id = $3 AND c.deleted_at IS NULL
			RETURNING created_at`,
			p.Tenant, q.ID, q.Collection, q.Text, q.Plan, filter, q.K, p.Key, store.EmptyNotNull(p.Groups), q.Async, q.Trace, store.EmptyNotNull(q.Choices), q.PlanText, p.Person, q.waits(), q.Risk, q.Asked).Scan(&job.CreatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("collection %s: %w", q.Collection, schema.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if p.Person != "" {
			if err := store.Audit(ctx, tx, p.Tenant, p, "question.ask", q.ID.String(), nil); err != nil {
				return err
			}
		}
		if !q.Async {
			return nil
		}
		var out store.Outbox
		if err := out.Question(p.Tenant, q.Collection, q.ID, 1, q.Trace); err != nil {
			return err
		}
		return out.Write(ctx, tx)
	})
	if err != nil {
		return schema.Job{}, fmt.Errorf("store a question: %w", err)
	}
	return job, nil
}

// waits returns how long the asker waits; nil: not known. The database adds it to its own time.
func (q NewQuestion) waits() *time.Duration {
	if q.Async || q.Until.IsZero() {
		return nil
	}
	left := max(0, time.Until(q.Until))
	return &left
}

const questionSQL = `SELECT id, collection_id, question, plan, plan_text, filter, k, choices, risk, key_id, groups, person, async, state, attempt FROM questions
WHERE tenant_id = $1 AND id = $2`

func scanQuestion(row pgx.Row, tenant uuid.UUID) (answer.Question, error) {
	var q answer.Question
	var filter []byte
	err := row.Scan(&q.ID, &q.Query.Collection, &q.Query.Text, &q.Query.Plan, &q.Query.PlanText, &filter, &q.Query.K, &q.Query.Choices, &q.Query.Risk,
		&q.Query.Principal.Key, &q.Query.Principal.Groups, &q.Query.Principal.Person, &q.Async, &q.State, &q.Attempt)
	if err != nil {
		return answer.Question{}, err
	}
	q.Query.Principal.Tenant = tenant
	if len(filter) > 0 {
		if err := json.Unmarshal(filter, &q.Query.Filter); err != nil {
			return answer.Question{}, fmt.Errorf("decode the filter of question %s: %w", q.ID, err)
		}
	}
	return q, nil
}

// Question returns a question, whatever its state.
func (s *QuestionStore) Question(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	var q answer.Question
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		q, err = scanQuestion(tx.QueryRow(ctx, questionSQL, in.Tenant, in.Question), in.Tenant)
		return err
	})
	return q, store.Wrap(err, "load question %s", in.Question)
}

// Begin sets an unfinished question to running and returns it.
func (s *QuestionStore) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	var q answer.Question
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var before schema.JobState
		var trace string
		err := tx.QueryRow(ctx, `
			WITH old AS (
			    SELECT tenant_id, id, state FROM questions
			    WHERE tenant_id = $1 AND id = $2 AND attempt = $3 AND state IN ('queued', 'running') FOR UPDATE
			)
			UPDATE questions q SET state = 'running', stage = $4 FROM old
			WHERE q.tenant_id = old.tenant_id AND q.id = old.id RETURNING old.state, coalesce(q.trace, '')`,
			in.Tenant, in.Question, in.Attempt, answer.StepUnderstand).Scan(&before, &trace)
		missing := errors.Is(err, pgx.ErrNoRows)
		if err != nil && !missing {
			return err
		}
		if q, err = scanQuestion(tx.QueryRow(ctx, questionSQL, in.Tenant, in.Question), in.Tenant); err != nil {
			return err
		}
		if missing {
			return fmt.Errorf("it is %s in attempt %d: %w", q.State, q.Attempt, schema.ErrLostLease)
		}
		if !q.Async || before == schema.JobRunning {
			return nil
		}
		var out store.Outbox
		if err := out.QuestionEvent(wire.QuestionEvent{Kind: wire.EventQuestionRunning, State: schema.JobRunning,
			Tenant: in.Tenant, Collection: q.Query.Collection, Question: in.Question, Attempt: in.Attempt}, trace); err != nil {
			return err
		}
		return out.Write(ctx, tx)
	})
	return q, store.Wrap(err, "begin question %s", in.Question)
}

// own locks an unfinished question of in's attempt for a write. The error is schema.ErrLostLease
// when there is none.
func own(ctx context.Context, tx pgx.Tx, in wire.QuestionInput) (collection uuid.UUID, async bool, trace string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT collection_id, async, coalesce(trace, '') FROM questions
		WHERE tenant_id = $1 AND id = $2 AND attempt = $3 AND state IN ('queued', 'running') FOR UPDATE`,
		in.Tenant, in.Question, in.Attempt).Scan(&collection, &async, &trace)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("it has ended or another attempt owns it: %w", schema.ErrLostLease)
	}
	return collection, async, trace, err
}

// SetStage records the current step.
func (s *QuestionStore) SetStage(ctx context.Context, in wire.QuestionInput, stage string) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, _, _, err := own(ctx, tx, in); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE questions SET stage = $3 WHERE tenant_id = $1 AND id = $2 AND stage <> $3`, in.Tenant, in.Question, stage)
		return err
	})
	return store.Wrap(err, "begin step %s of question %s", stage, in.Question)
}

// SaveRetrieval stores the result of a round unless there is one, and returns the stored one.
func (s *QuestionStore) SaveRetrieval(ctx context.Context, in wire.QuestionInput, round int, r answer.Retrieval) (answer.Retrieval, error) {
	candidates, err := json.Marshal(store.EmptyNotNull(r.Candidates))
	if err != nil {
		return answer.Retrieval{}, fmt.Errorf("encode candidates: %w", err)
	}
	trace, err := json.Marshal(store.EmptyNotNull(r.Trace))
	if err != nil {
		return answer.Retrieval{}, fmt.Errorf("encode a trace: %w", err)
	}
	var kept answer.Retrieval
	err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, _, _, err := own(ctx, tx, in); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO retrievals (tenant_id, question_id, round, candidates, trace, skipped, min_k, pool) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT DO NOTHING`, in.Tenant, in.Question, round, candidates, trace, r.Skipped, r.MinK, r.Pool)
		if err != nil {
			return err
		}
		if kept = r; tag.RowsAffected() == 0 {
			kept, err = loadRetrieval(ctx, tx, in, round)
		}
		return err
	})
	return kept, store.Wrap(err, "keep what was retrieved for question %s", in.Question)
}

// Retrieval returns the stored result of a round, or schema.ErrNotFound.
func (s *QuestionStore) Retrieval(ctx context.Context, in wire.QuestionInput, round int) (answer.Retrieval, error) {
	var r answer.Retrieval
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		r, err = loadRetrieval(ctx, tx, in, round)
		return err
	})
	return r, store.Wrap(err, "load what was retrieved for question %s", in.Question)
}

func loadRetrieval(ctx context.Context, tx pgx.Tx, in wire.QuestionInput, round int) (answer.Retrieval, error) {
	var r answer.Retrieval
	err := tx.QueryRow(ctx, `SELECT candidates, trace, skipped, min_k, pool, verdict FROM retrievals WHERE tenant_id = $1 AND question_id = $2 AND round = $3`,
		in.Tenant, in.Question, round).Scan(&r.Candidates, &r.Trace, &r.Skipped, &r.MinK, &r.Pool, &r.Verdict)
	return r, err
}

// SaveVerdict stores the verdict on a round's answer unless there is one, and returns the stored
// one.
func (s *QuestionStore) SaveVerdict(ctx context.Context, in wire.QuestionInput, round int, v answer.Verdict) (answer.Verdict, error) {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, _, _, err := own(ctx, tx, in); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			UPDATE retrievals SET verdict = coalesce(verdict, $4) WHERE tenant_id = $1 AND question_id = $2 AND round = $3
			RETURNING verdict`, in.Tenant, in.Question, round, v).Scan(&v)
	})
	return v, store.Wrap(err, "keep the verdict on an answer of question %s", in.Question)
}

// SaveAnswer stores an answer with its citations, and ends the question.
func (s *QuestionStore) SaveAnswer(ctx context.Context, in wire.QuestionInput, a schema.Answer) error {
	trace, err := json.Marshal(store.EmptyNotNull(a.Trace))
	if err != nil {
		return fmt.Errorf("encode a trace: %w", err)
	}
	usage, err := json.Marshal(a.Usage)
	if err != nil {
		return fmt.Errorf("encode a usage: %w", err)
	}
	sentences, err := json.Marshal(store.EmptyNotNull(a.Sentences))
	if err != nil {
		return fmt.Errorf("encode the sentences of an answer: %w", err)
	}
	err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		collection, async, traceparent, err := own(ctx, tx, in)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO answers (tenant_id, question_id, answer, supported, plan, trace, usage, rounds, uncited, sentences, choice, notes,
			                     plan_sha256, pack, pack_version, pack_sha256)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
			in.Tenant, in.Question, a.Answer, a.Supported, a.Plan, trace, usage, a.Rounds, a.Uncited, sentences, a.Choice, store.EmptyNotNull(a.Notes),
			a.Origin.PlanSHA256, a.Origin.Pack, a.Origin.PackVersion, a.Origin.PackSHA256); err != nil {
			return err
		}
		for i, c := range a.Citations {
			if _, err := tx.Exec(ctx, `
				INSERT INTO citations (tenant_id, question_id, ordinal, document_id, external_id, title, location, version_id, section_id, start_byte, end_byte, quote,
				                       answer_start, answer_end, confidence, page, boxes, answer_boxes, section, file)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
				        (SELECT ordinal FROM sections WHERE tenant_id = $1 AND version_id = $8 AND id = $9),
				        (SELECT jsonb_build_object('name', coalesce(nullif(v.file_name, ''), $5), 'media_type', v.media_type, 'language', c.language)
				         FROM versions v JOIN collections c ON c.tenant_id = $1 AND c.id = v.collection_id WHERE v.tenant_id = $1 AND v.id = $8))`,
				in.Tenant, in.Question, i, c.DocumentID, c.Document, c.Title, c.Location, c.Span.Version, c.Span.Section, c.Span.Start, c.Span.End, c.Quote,
				c.Answer.Start, c.Answer.End, c.Answer.Confidence, c.Page, store.EmptyNotNull(c.Boxes), store.EmptyNotNull(c.Answer.Boxes)); err != nil {
				return err
			}
		}
		return end(ctx, tx, in, wire.QuestionEvent{Kind: wire.EventQuestionAnswered, State: schema.JobAnswered, Collection: collection}, async, traceparent)
	})
	return store.Wrap(err, "store the answer of question %s", in.Question)
}

// Fail ends the question with a reason.
func (s *QuestionStore) Fail(ctx context.Context, in wire.QuestionInput, r schema.Reason) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		collection, async, traceparent, err := own(ctx, tx, in)
		if err != nil {
			return err
		}
		// If its retrieval was purged, a reply that came after the purge may quote the deleted
		// document.
		if _, err := tx.Exec(ctx, `
			UPDATE llm_calls SET reply = '{}'
			WHERE tenant_id = $1 AND question_id = $2 AND NOT EXISTS (SELECT FROM retrievals WHERE tenant_id = $1 AND question_id = $2)`,
			in.Tenant, in.Question); err != nil {
			return err
		}
		return end(ctx, tx, in, wire.QuestionEvent{Kind: wire.EventQuestionFailed, State: schema.JobFailed, Collection: collection, Reason: &r}, async, traceparent)
	})
	return store.Wrap(err, "fail question %s", in.Question)
}

// Cancel ends the question as cancelled.
func (s *QuestionStore) Cancel(ctx context.Context, in wire.QuestionInput) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		collection, async, traceparent, err := own(ctx, tx, in)
		if err != nil {
			return err
		}
		return end(ctx, tx, in, wire.QuestionEvent{Kind: wire.EventQuestionCancelled, State: schema.JobCancelled, Collection: collection}, async, traceparent)
	})
	return store.Wrap(err, "cancel question %s", in.Question)
}

// end moves an owned question to its final state. For an asynchronous one it also removes the lease
// and writes an event.
func end(ctx context.Context, tx pgx.Tx, in wire.QuestionInput, e wire.QuestionEvent, async bool, traceparent string) error {
	var code, message *string
	if e.Reason != nil {
		code, message = &e.Reason.Code, &e.Reason.Message
	}
	if _, err := tx.Exec(ctx, `
		UPDATE questions SET state = $3, reason_code = $4, reason = $5, finished_at = now() WHERE tenant_id = $1 AND id = $2`,
		in.Tenant, in.Question, e.State, code, message); err != nil {
		return err
	}
	if !async {
		return nil
	}
	if _, err := tx.Exec(ctx, `DELETE FROM leases WHERE tenant_id = $1 AND subject_id = $2`, in.Tenant, in.Question); err != nil {
		return err
	}
	e.Tenant, e.Question, e.Attempt = in.Tenant, in.Question, in.Attempt
	var out store.Outbox
	if err := out.QuestionEvent(e, traceparent); err != nil {
		return err
	}
	return out.Write(ctx, tx)
}

// Answer returns the stored answer, or schema.ErrNotFound. It is for the answering process, and
// checks no access rights.
func (s *QuestionStore) Answer(ctx context.Context, in wire.QuestionInput) (schema.Answer, error) {
	var a schema.Answer
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = loadAnswer(ctx, tx, in.Tenant, in.Question)
		return err
	})
	return a, store.Wrap(err, "load the answer of question %s", in.Question)
}

func loadAnswer(ctx context.Context, tx pgx.Tx, tenant, question uuid.UUID) (schema.Answer, error) {
	a := schema.Answer{ID: question}
	err := tx.QueryRow(ctx, `
		SELECT coalesce(q.asked, q.question), CASE WHEN q.asked IS NULL THEN '' ELSE q.question END, a.answer, a.supported, a.plan, a.trace, a.usage, a.rounds, a.uncited, a.sentences, a.choice, a.notes
		FROM answers a JOIN questions q ON q.tenant_id = a.tenant_id AND q.id = a.question_id
		WHERE a.tenant_id = $1 AND a.question_id = $2`, tenant, question).
		Scan(&a.Question, &a.Standalone, &a.Answer, &a.Supported, &a.Plan, &a.Trace, &a.Usage, &a.Rounds, &a.Uncited, &a.Sentences, &a.Choice, &a.Notes)
	if err != nil {
		return schema.Answer{}, err
	}
	if len(a.Notes) == 0 {
		a.Notes = nil
	}
	if len(a.Sentences) == 0 {
		a.Sentences = nil
	}
	rows, err := tx.Query(ctx, `SELECT `+citationColumns+` FROM citations WHERE tenant_id = $1 AND question_id = $2 ORDER BY ordinal`, tenant, question)
	if err != nil {
		return schema.Answer{}, err
	}
	a.Citations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (schema.Citation, error) { return scanCitation(row) })
	a.Citations = store.EmptyNotNull(a.Citations)
	return a, err
}

// citationColumns are the columns that scanCitation reads, after those for before.
const citationColumns = `external_id, document_id, title, location, quote, version_id, section_id, start_byte, end_byte, answer_start, answer_end, confidence, page, boxes, answer_boxes`

func scanCitation(row pgx.CollectableRow, before ...any) (schema.Citation, error) {
	var c schema.Citation
	err := row.Scan(append(before, &c.Document, &c.DocumentID, &c.Title, &c.Location, &c.Quote, &c.Span.Version, &c.Span.Section, &c.Span.Start, &c.Span.End,
		&c.Answer.Start, &c.Answer.End, &c.Answer.Confidence, &c.Page, &c.Boxes, &c.Answer.Boxes)...)
	if len(c.Boxes) == 0 {
		c.Boxes = nil
	}
	if len(c.Answer.Boxes) == 0 {
		c.Answer.Boxes = nil
	}
	if a := &c.Answer; err == nil && 0 <= a.Start && a.Start < a.End && a.End <= len(c.Quote) {
		a.Text = c.Quote[a.Start:a.End]
	}
	return c, err
}
