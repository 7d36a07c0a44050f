package store_test

// This file tests commits whose replies are lost.

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// commitDropper is a proxy to a server. While it is armed it forwards a commit and closes the
// connection in place of the reply.
type commitDropper struct {
	armed atomic.Bool
	once  atomic.Bool // it is disarmed by the first commit
	lost  atomic.Int32
}

// newCommitDropper returns a proxy to the server of a database, and the database's URL
// through it.
func newCommitDropper(t *testing.T, database string) (*commitDropper, string) {
	t.Helper()
	l := &commitDropper{}
	return l, newProxy(t, database, l.filters)
}

func (l *commitDropper) filters() (sent, received filter) {
	var swallow atomic.Bool
	return func(data []byte) filterAction {
			if l.armed.Load() && bytes.Contains(data, []byte("commit\x00")) {
				swallow.Store(true)
			}
			return pass
		}, func([]byte) filterAction {
			if !swallow.Load() {
				return pass
			}
			l.lost.Add(1)
			if l.once.Load() {
				l.armed.Store(false)
			}
			return cut
		}
}

// When the reply to a commit is lost the error is that the database is unavailable. The transaction
// is not repeated, because it may have been committed.
func TestACommitWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	f := setUp(t, store.Options{})
	proxy, through := newCommitDropper(t, f.url)
	s := open(t, through, store.Options{})
	count := func() (n int) {
		t.Helper()
		err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM questions`).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	q := questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "Who pays?"}, Async: true}

	proxy.armed.Store(true)
	if _, err := s.CreateQuestion(t.Context(), f.a, q); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a lost reply: %v", err)
	}
	if lost, n := proxy.lost.Load(), count(); lost != 1 || n != 1 {
		t.Errorf("%d replies were lost, %d questions are there; want one each", lost, n)
	}
	runs := 0
	err := s.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(ctx, `SELECT 1`)
		return err
	})
	if runs != 1 || !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("ran %d times: %v", runs, err)
	}

	// With an idempotency key the caller repeats the request, and gets the stored reply.
	made := &schema.Reply{Status: 202, ContentType: "application/json", Body: []byte("{}")}
	act := func(ctx context.Context) *schema.Reply {
		if _, err := s.CreateQuestion(ctx, f.a, q); err != nil {
			t.Error(err)
		}
		return made
	}
	if _, err := s.Store.Once(t.Context(), f.a, "k", "POST /x", []byte("hash"), act); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("a lost reply to a request with a key: %v", err)
	}
	proxy.armed.Store(false)
	kept, err := s.Store.Once(t.Context(), f.a, "k", "POST /x", []byte("hash"), act)
	if err != nil || kept == nil || kept.Status != made.Status || count() != 2 {
		t.Errorf("%+v, %v, %d questions", kept, err, count())
	}
}

// TestAReplyIsPaidForOnce: the commit that keeps a language model's reply is repeated when its own
// reply is lost.
func TestAReplyIsPaidForOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	proxy, through := newCommitDropper(t, f.url)
	proxy.once.Store(true)
	s := open(t, through, store.Options{})
	reply, err := s.LedgerStore.Once(t.Context(), call(f, in), func(context.Context) (wire.LLMReply, error) {
		proxy.armed.Store(true)
		return wire.LLMReply{Text: "five", Usage: schema.Usage{Provider: "openai", Model: "m", InputTokens: 7, OutputTokens: 3}}, nil
	})
	if err != nil || reply.Text != "five" || proxy.lost.Load() != 1 {
		t.Errorf("%+v, %v, %d commits' replies were lost", reply, err, proxy.lost.Load())
	}
	if u := f.usage(t, f.a); u.Day.Calls != 1 || u.Day.InputTokens != 7 || u.Day.OutputTokens != 3 {
		t.Errorf("charged for %+v", u.Day)
	}
}
