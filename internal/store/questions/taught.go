package questions

// This file keeps what labelled questions teach of a language model (FIT-RAG): which of them it
// answers correctly without retrieval, which texts help it, and the head that is learnt from these.
// Of a question and of a text only a hash and numbers are stored; of imported questions also their
// text.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/internal/question/learn"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

var _ learn.Store = (*QuestionStore)(nil)

// ofLiving ends an INSERT ... SELECT that inserts only if the collection is not deleted; FOR SHARE
// waits for a deletion in progress.
const ofLiving = ` FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL FOR SHARE`

// Taught implements learn.Store.
func (s *QuestionStore) Taught(ctx context.Context, of learn.Of) (known *bool, err error) {
	err = s.db.AsTenant(ctx, of.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		known = nil
		err := tx.QueryRow(ctx, `SELECT known FROM taught_questions WHERE tenant_id = $1 AND collection_id = $2 AND model = $3 AND question = $4`,
			of.Tenant, of.Collection, of.Model, of.Question[:]).Scan(&known)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return known, store.Wrap(err, "find what a labelled question taught")
}

// Teach implements learn.Store.
func (s *QuestionStore) Teach(ctx context.Context, of learn.Of, space string, vector []float32, known bool) error {
	err := s.db.AsTenant(ctx, of.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO taught_questions (tenant_id, collection_id, model, question, known, space, vector)
			SELECT $1, $2, $3, $4, $5, $6, $7`+ofLiving+`
			ON CONFLICT (tenant_id, collection_id, model, question) DO UPDATE SET known = excluded.known, space = excluded.space, vector = excluded.vector`,
			of.Tenant, of.Collection, of.Model, of.Question[:], known, space, pgvector.NewVector(vector))
		return err
	})
	return store.Wrap(err, "keep what a labelled question taught")
}

// KeepQuestion implements learn.Store.
func (s *QuestionStore) KeepQuestion(ctx context.Context, of learn.Of, q schema.LabelledQuestion) error {
	err := s.db.AsTenant(ctx, of.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO imported_questions (tenant_id, collection_id, hash, question, answers) SELECT $1, $2, $3, $4, $5`+ofLiving+` ON CONFLICT DO NOTHING`,
			of.Tenant, of.Collection, of.Question[:], text.Clean(q.Question), cleaned(q.Answers))
		return err
	})
	return store.Wrap(err, "keep an imported question")
}

func cleaned(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = text.Clean(t)
	}
	return out
}

// Labels implements learn.Store.
func (s *QuestionStore) Labels(ctx context.Context, of learn.Of) (map[[sha256.Size]byte]learn.Label, error) {
	var out map[[sha256.Size]byte]learn.Label
	err := s.db.AsTenant(ctx, of.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = map[[sha256.Size]byte]learn.Label{}
		rows, err := tx.Query(ctx, `
			SELECT passage, version_id, has_answer, preferred, graph FROM preference_labels
			WHERE tenant_id = $1 AND collection_id = $2 AND model = $3 AND question = $4`, of.Tenant, of.Collection, of.Model, of.Question[:])
		if err != nil {
			return err
		}
		var l learn.Label
		var hash []byte
		_, err = pgx.ForEachRow(rows, []any{&hash, &l.Version, &l.HasAnswer, &l.Preferred, &l.Graph}, func() error {
			if len(hash) != sha256.Size {
				return fmt.Errorf("a hash of %d bytes", len(hash))
			}
			l.Passage = [sha256.Size]byte(hash)
			out[l.Passage] = l
			return nil
		})
		return err
	})
	return out, store.Wrap(err, "find a question's labels")
}

// KeepLabel implements learn.Store. It does not store a label for a version that was purged
// meanwhile.
func (s *QuestionStore) KeepLabel(ctx context.Context, of learn.Of, l learn.Label) error {
	err := s.db.AsTenant(ctx, of.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO preference_labels (tenant_id, collection_id, model, question, passage, version_id, has_answer, preferred, graph, features)
			SELECT $1, $2, $3, $4, $5, v.id, $7, $8, $9, $10 FROM versions v JOIN collections c ON c.tenant_id = v.tenant_id AND c.id = v.collection_id
			WHERE v.tenant_id = $1 AND v.id = $6 AND (v.collection_id = $2) IS TRUE
			  AND v.purged_at IS NULL AND c.deleted_at IS NULL FOR SHARE OF v, c
			ON CONFLICT (tenant_id, collection_id, model, question, passage) DO UPDATE SET version_id = excluded.version_id, graph = excluded.graph,
			    features = excluded.features, created_at = now()`,
			of.Tenant, of.Collection, of.Model, of.Question[:], l.Passage[:], l.Version, l.HasAnswer, l.Preferred, l.Graph, l.Features)
		return err
	})
	return store.Wrap(err, "keep a text's label")
}

// maxSamples bounds the samples that a head is learnt from: the newest labels.
const maxSamples = 50_000

// LabelledTexts returns the samples that a head is learnt from: the labels of a model with the pair
// graph of its newest label. An empty model means the one of the newest label.
func (s *QuestionStore) LabelledTexts(ctx context.Context, tenant, collection uuid.UUID, model string) (samples []preference.Sample, by, graph string, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		samples, by, graph = nil, "", ""
		err := tx.QueryRow(ctx, `
			SELECT model, graph FROM preference_labels WHERE tenant_id = $1 AND collection_id = $2 AND ($3 = '' OR model = $3)
			ORDER BY created_at DESC LIMIT 1`, tenant, collection, model).Scan(&by, &graph)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT question, has_answer, preferred, features FROM preference_labels
			WHERE tenant_id = $1 AND collection_id = $2 AND model = $3 AND graph = $4 ORDER BY created_at DESC LIMIT $5`, tenant, collection, by, graph, maxSamples)
		if err != nil {
			return err
		}
		groups := map[string]int{}
		var question []byte
		var features []float32
		var one preference.Sample
		_, err = pgx.ForEachRow(rows, []any{&question, &one.HasAnswer, &one.Prefer, &features}, func() error {
			if _, known := groups[string(question)]; !known {
				groups[string(question)] = len(groups)
			}
			one.Group, one.X = groups[string(question)], make([]float64, len(features))
			for i, x := range features {
				one.X[i] = float64(x)
			}
			samples = append(samples, one)
			return nil
		})
		return err
	})
	return samples, by, graph, store.Wrap(err, "find labelled texts")
}

// KeepPreference stores a head, and replaces the previous one.
func (s *QuestionStore) KeepPreference(ctx context.Context, p schema.Principal, collection uuid.UUID, model, graph string, l preference.Learnt) (schema.Preference, error) {
	out := schema.Preference{Model: model, Graph: graph, Questions: l.Questions, Texts: l.Texts, Preferred: l.Preferred, Differing: l.Differing, Weight: l.Weight,
		HeldOut: l.HeldOut, Area: l.Area, OwnArea: l.OwnArea, Kept: l.Better()}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			INSERT INTO preferences AS p (tenant_id, collection_id, model, graph, weights, bias, questions, texts, preferred, differing, weight, held_out, area, own_area)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14`+ofLiving+`
			ON CONFLICT (tenant_id, collection_id, model, graph) DO UPDATE SET weights = excluded.weights, bias = excluded.bias, questions = excluded.questions,
			    texts = excluded.texts, preferred = excluded.preferred, differing = excluded.differing, weight = excluded.weight, held_out = excluded.held_out,
			    area = excluded.area, own_area = excluded.own_area, learnt_at = now()
			RETURNING learnt_at`, p.Tenant, collection, model, graph, l.Head.Weights, l.Head.Bias, l.Questions, l.Texts, l.Preferred, l.Differing, l.Weight,
			l.HeldOut, l.Area, l.OwnArea).Scan(&out.LearntAt)
		if err != nil {
			return store.Named(err, "collection", collection)
		}
		return store.Audit(ctx, tx, p.Tenant, p, "preference.learn", collection.String(), map[string]any{"model": model, "questions": l.Questions})
	})
	return out, store.Wrap(err, "keep what %s prefers", model)
}

// LearntPreferences lists a collection's heads, newest first.
func (s *QuestionStore) LearntPreferences(ctx context.Context, p schema.Principal, collection uuid.UUID) ([]schema.Preference, error) {
	var out []schema.Preference
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT model, graph, questions, texts, preferred, differing, weight, held_out, area, own_area, area >= own_area, learnt_at FROM preferences
			WHERE tenant_id = $1 AND collection_id = $2 ORDER BY learnt_at DESC`, p.Tenant, collection)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Preference])
		return err
	})
	return out, store.Wrap(err, "list what was learnt of language models' preferences")
}

// ForgetPreferences deletes the heads and all labels of a collection, and what its labelled
// questions taught. The pack's own reader is used again then.
func (s *QuestionStore) ForgetPreferences(ctx context.Context, p schema.Principal, collection uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`DELETE FROM preferences WHERE tenant_id = $1 AND collection_id = $2`,
			`DELETE FROM preference_labels WHERE tenant_id = $1 AND collection_id = $2`,
			`DELETE FROM taught_questions WHERE tenant_id = $1 AND collection_id = $2`,
			`DELETE FROM imported_questions WHERE tenant_id = $1 AND collection_id = $2`,
		} {
			if _, err := tx.Exec(ctx, sql, p.Tenant, collection); err != nil {
				return err
			}
		}
		return store.Audit(ctx, tx, p.Tenant, p, "preference.forget", collection.String(), nil)
	})
	return store.Wrap(err, "forget what was learnt of language models' preferences")
}
