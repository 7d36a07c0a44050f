package httpapi

// Labels may change while an answer is made. Its text is streamed only to readers who may see
// everything that has been read for it so far.

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// sourcesPause is the least time between two checks of the sources of one answer. Text that comes
// meanwhile waits for the next check.
const sourcesPause = 50 * time.Millisecond

// sources checks whether the sources of an answer that is being made are hidden from its reader.
type sources struct {
	server   *server
	p        schema.Principal
	question uuid.UUID

	at time.Time
}

// hidden checks now, or sourcesPause after the last check. It returns true if the check fails.
func (s *sources) hidden(ctx context.Context) bool {
	if pause := sourcesPause - time.Since(s.at); pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return true
		case <-timer.C:
		}
	}
	p, err := s.server.permit(ctx, s.p)
	hidden := true
	if err == nil {
		hidden, err = s.server.Questions.SourcesHidden(ctx, p, s.question)
	}
	s.at = time.Now()
	if err != nil {
		slog.WarnContext(ctx, "cannot look up the sources of an answer; withholding its text", "question", s.question, "error", err)
		return true
	}
	return hidden
}
