// This file runs a whole program: it starts it, waits for a signal, and stops it in two phases.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs service until ctx ends, SIGINT or SIGTERM arrives, or it ends by itself.
//
// The first signal stops the fetching of work and gives the work in progress grace to finish; when
// that is over, or at a second signal, the work is cancelled. A signal during the start abandons
// the start. ready, if not nil, is called once the service runs. The result is nil when the program
// was asked to end and nothing had to be cut short.
func Main(ctx context.Context, log *slog.Logger, grace time.Duration, service Service, ready func()) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	starting, abandon := context.WithCancel(ctx)
	defer abandon()
	started := make(chan error, 1)
	go func() { started <- service.Start(starting) }()

	asked := false
	var err error
	select {
	case err = <-started:
	case sig := <-signals:
		log.Info("stopping before the start was complete", "signal", sig.String())
		asked = true
		abandon()
		err = <-started
	}
	if err != nil {
		if (asked || ctx.Err() != nil) && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}

	if !asked {
		if ready != nil {
			ready()
		}
		select {
		case sig := <-signals:
			log.Info("stopping: finishing the work in hand", "signal", sig.String(), "grace", grace)
		case <-ctx.Done():
			log.Info("stopping: finishing the work in hand", "cause", context.Cause(ctx), "grace", grace)
		case <-service.Done():
			if err := service.Err(); err != nil {
				return err
			}
			return fmt.Errorf("%s: %w", nameOf(service), ErrEnded)
		}
	}

	stopping, cut := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cut()
	stopped := make(chan error, 1)
	go func() { stopped <- service.Stop(stopping) }()
	select {
	case err := <-stopped:
		return err
	case sig := <-signals:
		log.Warn("cancelling the work in hand", "signal", sig.String())
		cut()
		return <-stopped
	}
}
