package question

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestRemoteSaysWhetherToAskAgain(t *testing.T) {
	for err, want := range map[error]schema.Code{
		fmt.Errorf("search: %w", context.Canceled):                   schema.CodeUnavailable, // the worker stops
		fmt.Errorf("search: %w", context.DeadlineExceeded):           schema.CodeDeadline,
		fmt.Errorf("no database: %w", schema.ErrUnavailable):         schema.CodeUnavailable,
		fmt.Errorf("%w: %w", schema.ErrOverloaded, context.Canceled): schema.CodeOverloaded,
		errors.New("a fault of the program"):                         schema.CodeInternal,
	} {
		if e := Remote(err); e.Code != want {
			t.Errorf("%v became %s: %s, want %s", err, e.Code, e.Message, want)
		}
	}
}
