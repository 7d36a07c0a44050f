package llm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
)

// TestAccountsAdmitWhatFits checks that calls are admitted up to a limit and not beyond, and that a
// refusal says when the limit resets.
func TestAccountsAdmitWhatFits(t *testing.T) {
	at := time.Date(2026, 12, 31, 23, 0, 30, 0, time.UTC)
	tokens, calls := int64(1000), 3
	a := llm.Account{At: at, Day: llm.AccountSums{Input: 500, Output: 100}, Month: llm.AccountSums{Input: 700}, ReservedTokens: 300, Open: 2, Began: 2}
	for _, c := range []struct {
		name    string
		limits  llm.AccountLimits
		change  func(*llm.Account, *llm.Reservation)
		again   time.Duration
		err     error
		message string
	}{
		{name: "no limits"},
		{name: "all of the day", limits: llm.AccountLimits{DayTokens: &tokens, AtOnce: &calls, PerMinute: &calls}},
		{name: "beside calls in progress", limits: llm.AccountLimits{MonthTokens: &tokens}, again: 100 * time.Millisecond, err: schema.ErrQuota,
			message: "1000 tokens a month has no room for this call: 700 tokens used, up to 300 tokens more by calls in progress, and up to 100 tokens by this one; " +
				"it resets at 2027-01-01T00:00:00Z"},
		{name: "never", limits: llm.AccountLimits{DayTokens: &tokens}, change: func(_ *llm.Account, r *llm.Reservation) { r.Tokens = 401 }, err: schema.ErrQuota},
		{name: "own models cost nothing", limits: llm.AccountLimits{DayTokens: &tokens}, change: func(_ *llm.Account, r *llm.Reservation) { r.Tokens, r.Own = 401, true }},
		{name: "too many at once", limits: llm.AccountLimits{AtOnce: &calls}, change: func(a *llm.Account, _ *llm.Reservation) { a.Open = 3 },
			again: 100 * time.Millisecond, err: schema.ErrOverloaded, message: "limit of 3 language model calls at once"},
		{name: "more of a call in progress", limits: llm.AccountLimits{AtOnce: &calls}, change: func(a *llm.Account, r *llm.Reservation) { a.Open, r.More = 3, true }},
		{name: "too many a minute", limits: llm.AccountLimits{PerMinute: &calls}, change: func(a *llm.Account, _ *llm.Reservation) {
			first := at.Add(-20 * time.Second)
			a.Began, a.First = 3, &first
		}, again: 40 * time.Second, err: schema.ErrOverloaded, message: "room again in 40s"},
	} {
		account, r := a, llm.Reservation{Tokens: 100}
		if account.Limits = c.limits; c.change != nil {
			c.change(&account, &r)
		}
		again, err := account.Admit(r)
		if again != c.again || !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %s, %v", c.name, again, err)
		}
	}
}
