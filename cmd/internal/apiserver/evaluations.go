package apiserver

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/store/evaluations"
	"github.com/sluice-rag/sluice/schema"
)

// evaluationAPI compares evaluations that are in the store.
type evaluationAPI struct{ *evaluations.EvaluationStore }

// CompareEvaluations implements httpapi.Evaluations.
func (e evaluationAPI) CompareEvaluations(ctx context.Context, p schema.Principal, id, against uuid.UUID) (schema.EvaluationComparison, error) {
	both, figures, err := e.EvaluationPair(ctx, p, [2]uuid.UUID{id, against})
	if err != nil {
		return schema.EvaluationComparison{}, err
	}
	return evaluate.Compare(both[0], both[1], figures[0], figures[1]), nil
}
