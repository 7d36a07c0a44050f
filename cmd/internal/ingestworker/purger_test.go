package ingestworker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// TestTheWorkerForgetsOldQuestions: as its settings say, while it runs.
func TestTheWorkerForgetsOldQuestions(t *testing.T) {
	w := newWorld(t)
	ask := func(days int) uuid.UUID {
		id := schema.NewID()
		w.admin(`INSERT INTO questions (tenant_id, id, collection_id, question, plan, key_id, async, state, created_at)
			VALUES ($1, $2, $3, 'why?', 'naive', $2, false, 'answered', now() - make_interval(days => $4))`, w.principal.Tenant, id, w.collection, days)
		w.admin(`INSERT INTO retrievals (tenant_id, question_id, round, candidates, trace, created_at)
			VALUES ($1, $2, 1, '[{"text": "because"}]', '[]', now() - make_interval(days => $3))`, w.principal.Tenant, id, days)
		return id
	}
	ask(31)
	ask(400)
	w.admin(`INSERT INTO audit (tenant_id, id, at, actor, action, target)
		SELECT $1, gen_random_uuid(), now() - make_interval(days => n), 'system', 'test', '' FROM unnest('{1, 60}'::int[]) n`, w.principal.Tenant)
	middle, young := ask(15), ask(1)
	w.settings.PurgeEvery = 20 * time.Millisecond
	w.settings.KeepQuestions, w.settings.KeepRetrievals, w.settings.KeepAudit = 30, 7, 50
	w.start()
	waittest.Until(t, func() string {
		questions, emptied := w.count(`SELECT count(*) FROM questions`), w.count(`SELECT count(*) FROM retrievals WHERE candidates = '[]'`)
		if questions != 2 || emptied != 1 {
			return fmt.Sprintf("%d questions are left, and %d retrievals without candidates", questions, emptied)
		}
		if n := w.count(`SELECT count(*) FROM audit WHERE action = 'test'`); n != 1 {
			return fmt.Sprintf("%d entries of the audit log are left", n)
		}
		return ""
	})
	if n := w.count(`SELECT count(*) FROM retrievals WHERE question_id = $1 AND emptied_at IS NOT NULL OR question_id = $2 AND emptied_at IS NULL`, middle, young); n != 2 {
		t.Errorf("%d retrievals are as they should be", n)
	}
}

// TestAWorkerWithRetentionThatContradictsItselfDoesNotStart: its error names the setting.
func TestAWorkerWithRetentionThatContradictsItselfDoesNotStart(t *testing.T) {
	s := Settings{}
	s.KeepLLMCalls, s.KeepQuestions = 90, 30
	_, err := New(s, Deps{})
	var wrong *schema.FieldError
	if !errors.As(err, &wrong) || wrong.Field != "SLUICE_KEEP_QUESTIONS" {
		t.Errorf("got %v", err)
	}
}
