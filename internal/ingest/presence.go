package ingest

// A worker says that it lives by a session of the store, so that its leases are
// taken soon after its process ends, and not before.

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Session is what others see of this process while it is open.
type Session interface {
	// Hold returns when the session has broken, and why, or ctx has ended.
	Hold(ctx context.Context) error
	Close(ctx context.Context) error
}

// sessionMost is the longest pause between two tries to open a session: it must not be away for
// long.
const sessionMost = 2 * time.Second

// NewPresence keeps a session open, a new one whenever it breaks.
func NewPresence(open func(ctx context.Context) (Session, error)) lifecycle.Service {
	return lifecycle.NewLoop("presence", nil, func(fetch, work context.Context) error {
		pause := backoff{first: backoffFirst, most: sessionMost}
		for fetch.Err() == nil {
			err := present(fetch, open, &pause)
			if fetch.Err() != nil {
				break
			}
			slog.WarnContext(work, "the session that says that this worker lives broke; opening another one", "error", err)
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
