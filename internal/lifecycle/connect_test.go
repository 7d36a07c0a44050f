package lifecycle

import (
	"context"
	"errors"
	"testing"
)

func TestConnectTriesUntilAServerAnswers(t *testing.T) {
	tries := 0
	got, err := Connect(t.Context(), "a server", func(context.Context) (int, error) {
		if tries++; tries < 3 {
			return 0, errors.New("refused")
		}
		return 7, nil
	})
	if got != 7 || err != nil || tries != 3 {
		t.Errorf("got %d, %v after %d tries", got, err, tries)
	}
}

func TestConnectEndsWithItsContextAndTheLastError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	refused := errors.New("refused")
	_, err := Connect(ctx, "a server", func(context.Context) (int, error) {
		cancel()
		return 0, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
