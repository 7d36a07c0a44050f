package ingest

// A worker shows that it is alive by an open session of the store, so that its leases are taken
// over soon after its process ends, and not before.

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Session shows other processes that this one is alive while it is open.
type Session interface {
	// Hold blocks until the session breaks or ctx ends, and returns why.
	Hold(ctx context.Context) error
	Close(ctx context.Context) error
}

// maxSessionPause is the longest pause between two tries to open a session. It is short because a
// worker without a session counts as dead.
const maxSessionPause = 2 * time.Second

// NewPresence returns a service that keeps a session open, and opens another whenever it breaks.
func NewPresence(open func(ctx context.Context) (Session, error)) lifecycle.Service {
	return lifecycle.NewLoop("presence", nil, func(fetch, work context.Context) error {
		pause := backoff{first: minBackoff, max: maxSessionPause}
		for fetch.Err() == nil {
			err := present(fetch, open, &pause)
			if fetch.Err() != nil {
				break
			}
			slog.WarnContext(work, "lost the database session that shows that this worker is alive; opening another one", "error", err)
			pause.sleep(fetch)
		}
		return fetch.Err()
	})
}

func present(ctx context.Context, open func(ctx context.Context) (Session, error), pause *backoff) error {
	session, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := session.Close(closing); err != nil {
			slog.DebugContext(ctx, "closing the session", "error", err)
		}
	}()
	pause.reset()
	return session.Hold(ctx)
}
