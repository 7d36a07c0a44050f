// This file makes one service of several, which start in order, stop in reverse, and fail together.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Group is a Service made of services. When a member ends by itself the whole group stops, and Err
// names that member's error.
type Group struct{ *Func }

// NewGroup returns a Group. The services start in the order given, each after the one before it is
// ready, and stop in reverse. grace is the time that the others get to finish their work when one
// fails.
func NewGroup(name string, grace time.Duration, services ...Service) *Group {
	return &Group{NewFunc(name, func(ctx context.Context) (Run, error) {
		for i, s := range services {
			if err := s.Start(ctx); err != nil {
				return Run{}, errors.Join(err, stopAfterFailure(ctx, grace, services[:i]))
			}
		}
		return watch(ctx, grace, services), nil
	})}
}

// watch waits in a goroutine for Stop or for the end of a member, whichever is first, and then
// stops all members.
func watch(ctx context.Context, grace time.Duration, services []Service) Run {
	ctx = context.WithoutCancel(ctx)
	asked := make(chan context.Context)
	done := make(chan struct{})
	var failure, stopErr error
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(asked)}}
	for _, s := range services {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.Done())})
	}
	go func() {
		defer close(done)
		chosen, value, _ := reflect.Select(cases)
		if chosen == 0 {
			stopErr = stopAll(value.Interface().(context.Context), services)
			return
		}
		if failure = services[chosen-1].Err(); failure == nil {
			failure = ErrEnded
		}
		failure = fmt.Errorf("%s: %w", nameOf(services[chosen-1]), failure)
		failure = errors.Join(failure, stopAfterFailure(ctx, grace, services))
	}()
	return Run{
		Done: done,
		Err:  func() error { return failure },
		Stop: func(ctx context.Context) error {
			select {
			case asked <- ctx:
			case <-done:
			}
			<-done
			return stopErr
		},
	}
}

func stopAfterFailure(ctx context.Context, grace time.Duration, services []Service) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return stopAll(ctx, services)
}

func stopAll(ctx context.Context, services []Service) error {
	var all []error
	for _, s := range slices.Backward(services) {
		all = append(all, s.Stop(ctx))
	}
	return errors.Join(all...)
}

func nameOf(s Service) string {
	if n, ok := s.(fmt.Stringer); ok {
		return n.String()
	}
	return fmt.Sprintf("%T", s)
}
