package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func reservation(p schema.Principal, tokens, nanos int64) llm.Reservation {
	return llm.Reservation{Tenant: p.Tenant, ID: uuid.New(), Tokens: tokens, Nanos: nanos, TTL: time.Minute}
}

func (f *fixture) limit(t testing.TB, p schema.Principal, l schema.LLMLimits) {
	t.Helper()
	if _, err := f.SetLLMLimits(t.Context(), p, p.Tenant, l); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) usage(t testing.TB, p schema.Principal) schema.LLMUsage {
	t.Helper()
	u, err := f.LLMUsage(t.Context(), p.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// 80 calls that may cost 100 and do cost 60 come at once, through three gateways' pools, with a
// budget of 3,000: 49 of them fit, because 49 cost 2,940, which leaves no room for another 100.
// Fewer would mean that one was refused that fits, more that the budget is overspent.
func TestBudgetsHoldForManyAtOnce(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 6})
	gateways := []stores.All{f.All, open(t, f.url, store.Options{MaxConns: 6}), open(t, f.url, store.Options{MaxConns: 6})}
	for _, c := range []struct {
		name   string
		limits schema.LLMLimits
	}{
		{"tokens of a day", schema.LLMLimits{TokensPerDay: new(int64(3000))}},
		{"tokens of a month", schema.LLMLimits{TokensPerMonth: new(int64(3000)), TokensPerDay: new(int64(1_000_000))}},
		{"dollars of a day", schema.LLMLimits{DollarsPerDay: new(0.03)}},
		{"dollars of a month", schema.LLMLimits{DollarsPerMonth: new(0.03), DollarsPerDay: new(9.0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := f.tenant(t, strings.ReplaceAll(c.name, " ", "-"))
			f.limit(t, p, c.limits)
			var paid, refused atomic.Int32
			var all sync.WaitGroup
			for i := range 80 {
				accounts := gateways[i%len(gateways)]
				all.Go(func() {
					r := reservation(p, 100, 1_000_000)
					for {
						again, err := accounts.Reserve(context.Background(), r)
						if err == nil {
							break
						}
						if !errors.Is(err, schema.ErrQuota) {
							t.Error(err)
							return
						}
						if again == 0 {
							refused.Add(1)
							return
						}
					}
					if u := f.usage(t, p); u.Day.InputTokens+u.Day.OutputTokens+u.ReservedTokens > 3000 || u.Month.Dollars+u.ReservedDollars > 0.0300000001 {
						t.Errorf("over the budget: %+v", u)
					}
					if err := accounts.Settle(context.Background(), r.Tenant, r.ID, schema.Usage{InputTokens: 50, OutputTokens: 10, Cost: 0.0006}); err != nil {
						t.Error(err)
					}
					paid.Add(1)
				})
			}
			all.Wait()
			u := f.usage(t, p)
			if paid.Load() != 49 || refused.Load() != 31 || u.Day.InputTokens != 49*50 || u.Day.OutputTokens != 49*10 || u.Month.Dollars != 0.0294 || u.ReservedTokens != 0 || u.InProgress != 0 {
				t.Errorf("%d paid, %d refused, used %+v", paid.Load(), refused.Load(), u)
			}
			if other := f.usage(t, f.b); other.Day.Calls != 0 || other.Limits != (schema.LLMLimits{}) {
				t.Errorf("another tenant has %+v", other)
			}
		})
	}
}

func TestBudgetsSayWhatIsUsed(t *testing.T) {
	f := setUp(t, store.Options{})
	f.limit(t, f.a, schema.LLMLimits{TokensPerDay: new(int64(1000)), DollarsPerMonth: new(0.5)})
	accounts := f
	first := reservation(f.a, 600, 1000)
	if _, err := accounts.Reserve(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// It fits once the first one has cost less than reserved.
	second := reservation(f.a, 500, 1000)
	again, err := accounts.Reserve(t.Context(), second)
	if again <= 0 || !errors.Is(err, schema.ErrQuota) {
		t.Errorf("got %s, %v", again, err)
	}
	// A further reservation for a call in progress adds to the first one.
	more := first
	more.More, more.Tokens = true, 500
	if again, err := accounts.Reserve(t.Context(), more); again <= 0 || !errors.Is(err, schema.ErrQuota) {
		t.Errorf("got %s, %v", again, err)
	}
	more.Tokens = 400
	if _, err := accounts.Reserve(t.Context(), more); err != nil {
		t.Error(err)
	}
	if u := f.usage(t, f.a); u.InProgress != 1 || u.ReservedTokens != 1000 || u.ReservedDollars != 0.000002 {
		t.Errorf("got %+v", u)
	}
	if err := accounts.Settle(t.Context(), f.a.Tenant, first.ID, schema.Usage{InputTokens: 540, OutputTokens: 10, Cost: 0.4999995}); err != nil {
		t.Fatal(err)
	}
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format("2006-01-02T00:00:00Z")
	again, err = accounts.Reserve(t.Context(), second)
	for _, part := range []string{"1000 tokens a day", "550 tokens used", "up to 500 tokens by this one", "resets at " + tomorrow} {
		if again != 0 || !errors.Is(err, schema.ErrQuota) || !strings.Contains(err.Error(), part) {
			t.Errorf("got %s, %v; want %q", again, err, part)
		}
	}
	second.Tokens = 10
	again, err = accounts.Reserve(t.Context(), second)
	if again != 0 || !errors.Is(err, schema.ErrQuota) || !strings.Contains(err.Error(), "$0.50 a month") || !strings.Contains(err.Error(), "$0.4999995 used") {
		t.Errorf("got %s, %v", again, err)
	}
}

// A reservation that nobody settles counts until it expires.
func TestReservationsExpire(t *testing.T) {
	f := setUp(t, store.Options{})
	f.limit(t, f.a, schema.LLMLimits{TokensPerDay: new(int64(1000)), CallsAtOnce: new(1)})
	lost := reservation(f.a, 900, 0)
	if _, err := f.Reserve(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	next := reservation(f.a, 900, 0)
	if again, err := f.Reserve(t.Context(), next); again <= 0 || !errors.Is(err, schema.ErrOverloaded) {
		t.Errorf("got %s, %v", again, err)
	}
	execAs(t, f, f.a, `UPDATE llm_reservations SET until = now() - interval '1 second' WHERE id = $1`, lost.ID)
	if _, err := f.Reserve(t.Context(), next); err != nil {
		t.Error(err)
	}
}

func TestCallsArePacedManyAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	f.limit(t, f.a, schema.LLMLimits{CallsPerMinute: new(7), CallsAtOnce: new(5)})
	accounts := f
	begin := func() (begun []llm.Reservation) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				r := reservation(f.a, 1, 1)
				again, err := accounts.Reserve(context.Background(), r)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					begun = append(begun, r)
				case !errors.Is(err, schema.ErrOverloaded) || again <= 0 || again > time.Minute:
					t.Errorf("got %s, %v", again, err)
				}
			})
		}
		all.Wait()
		return begun
	}
	begun := begin()
	if len(begun) != 5 {
		t.Errorf("%d calls at once", len(begun))
	}
	for _, r := range begun {
		if err := accounts.Settle(t.Context(), r.Tenant, r.ID, schema.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	if more := begin(); len(more) != 2 {
		t.Errorf("%d more calls in the minute", len(more))
	}
	// A minute later further calls may begin.
	execAs(t, f, f.a, `UPDATE llm_reservations SET began_at = began_at - interval '1 minute', until = now() - interval '1 second'`)
	if more := begin(); len(more) != 5 {
		t.Errorf("%d calls in the next minute", len(more))
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_reservations`); n != 5 {
		t.Errorf("%d reservations are kept", n)
	}
	if _, err := accounts.Reserve(t.Context(), reservation(f.b, 1, 1)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// A reply, its cost and the end of its reservation are committed together.
func TestTheLedgerSettlesOnce(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 2})
	r := reservation(f.a, 100, 100)
	call := llm.Call{ID: r.ID, Tenant: f.a.Tenant, Step: wire.Step{Question: uuid.New(), Round: 1, Step: "answer"}, Task: wire.TaskAnswer}
	complete := func(ctx context.Context) (wire.LLMReply, error) {
		if _, err := f.Reserve(ctx, r); err != nil {
			return wire.LLMReply{}, err
		}
		return wire.LLMReply{Text: "five", Usage: schema.Usage{Provider: "p", Model: "m", InputTokens: 40, OutputTokens: 2, Cost: 0.00000005}}, nil
	}
	// As many calls at once as there are connections, and more, each of which needs a second
	// connection in between.
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if reply, err := f.LedgerStore.Once(context.Background(), call, complete); err != nil || reply.Text != "five" {
				t.Errorf("got %+v, %v", reply, err)
			}
		})
	}
	all.Wait()
	search := llm.Call{ID: uuid.New(), Tenant: f.a.Tenant, Step: wire.Step{Step: "stage 1 rewrite"}, Task: wire.TaskRewrite}
	for _, cached := range []bool{false, true} {
		search.ID = uuid.New()
		if err := f.Record(t.Context(), search, wire.LLMReply{Text: "not kept", Usage: schema.Usage{Provider: "p", InputTokens: 7, Cached: cached}}); err != nil {
			t.Fatal(err)
		}
	}
	u := f.usage(t, f.a)
	if u.InProgress != 0 || u.Day.Calls != 3 || u.Day.Cached != 1 || u.Day.InputTokens != 47 || u.Day.OutputTokens != 2 || u.Day.Dollars != 0.00000005 {
		t.Errorf("used %+v", u)
	}
	if got := one[string](t, f, f.a, `SELECT concat_ws(' ', provider, model, input_tokens, output_tokens, nanos, cached) FROM llm_calls`); got != "p m 40 2 50 f" {
		t.Errorf("the ledger has %q", got)
	}
	if got := one[string](t, f, f.a, `SELECT string_agg(concat_ws(' ', step, task, provider, input_tokens, cached), ', ' ORDER BY cached) FROM llm_search_calls`); got != "stage 1 rewrite rewrite p 7 f, stage 1 rewrite rewrite p 7 t" {
		t.Errorf("the ledger of searches has %q", got)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	f := setUp(t, store.Options{})
	for field, l := range map[string]schema.LLMLimits{
		"tokens_per_day": {TokensPerDay: new(int64(-1))}, "tokens_per_month": {TokensPerMonth: new(int64(-1))}, "dollars_per_day": {DollarsPerDay: new(-0.1)},
		"dollars_per_month": {DollarsPerMonth: new(1e12)}, "calls_per_minute": {CallsPerMinute: new(-1)}, "calls_at_once": {CallsAtOnce: new(-1)},
	} {
		_, err := f.SetLLMLimits(t.Context(), f.a, f.a.Tenant, l)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := f.SetLLMLimits(t.Context(), f.a, uuid.New(), schema.LLMLimits{}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("no such tenant: %v", err)
	}
	u, err := f.SetLLMLimits(t.Context(), f.a, f.a.Tenant, schema.LLMLimits{DollarsPerDay: new(0.25), CallsAtOnce: new(0)})
	if err != nil || *u.Limits.DollarsPerDay != 0.25 || *u.Limits.CallsAtOnce != 0 || u.Limits.TokensPerDay != nil {
		t.Errorf("got %+v, %v", u, err)
	}
	if again, err := f.Reserve(t.Context(), reservation(f.a, 1, 1)); again != 0 || !errors.Is(err, schema.ErrOverloaded) {
		t.Errorf("no call at all is allowed: %s, %v", again, err)
	}
	if got := one[string](t, f, f.a, `SELECT detail::text FROM audit WHERE action = 'tenant.limits'`); !strings.Contains(got, `"dollars_per_day": 0.25`) {
		t.Error(fmt.Sprint("audited ", got))
	}
}
