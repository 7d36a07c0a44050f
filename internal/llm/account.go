package llm

// This file decides which calls a tenant's limits admit, from the state of its account that the
// store has read.

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// AccountLimits are schema.LLMLimits with amounts in billionths of a dollar.
type AccountLimits struct {
	DayTokens, MonthTokens, DayNanos, MonthNanos *int64
	PerMinute, AtOnce                            *int
}

// Account is what is known of a tenant's usage at a moment. It covers either the calls to Sluice's
// own models or all others.
type Account struct {
	At                            time.Time
	Limits                        AccountLimits
	Day, Month                    AccountSums
	Open                          int // calls in progress
	ReservedTokens, ReservedNanos int64
	Began                         int        // calls that began within the last minute
	First                         *time.Time // when the call began that must be a minute old before another may begin
}

// AccountSums are the sums of a period.
type AccountSums struct{ Calls, Cached, Input, Output, Nanos int64 }

func (s AccountSums) tokens() int64 { return s.Input + s.Output }

// retryDelay is how soon to try again when calls in progress reach a limit.
const retryDelay = 100 * time.Millisecond

// Admit returns an error if the reservation r may not be made, and how soon it may succeed. The
// results are those of Accounts.Reserve.
func (a Account) Admit(r Reservation) (again time.Duration, err error) {
	if !r.More && !r.Uncounted {
		if again, err = a.hold(); err != nil {
			return again, err
		}
	}
	if r.Own { // it costs nothing
		return 0, nil
	}
	return a.fit(r)
}

func limitReached(code schema.Code, format string, args ...any) error {
	return &schema.RemoteError{Code: code, Message: fmt.Sprintf(format, args...), OfTenant: code == schema.CodeOverloaded}
}

// hold checks the limits of concurrent calls and of calls a minute. It returns what Admit does.
func (a Account) hold() (again time.Duration, err error) {
	if n := a.Limits.AtOnce; n != nil && a.Open >= *n {
		err = limitReached(schema.CodeOverloaded, "the tenant's limit of %d language model calls at once is reached: try again when one has ended", *n)
		if *n > 0 {
			again = retryDelay
		}
		return again, err
	}
	if n := a.Limits.PerMinute; n != nil && a.Began >= *n {
		if *n == 0 || a.First == nil {
			return 0, limitReached(schema.CodeOverloaded, "the tenant's limit is %d language model calls a minute", *n)
		}
		again = max(a.First.Add(time.Minute).Sub(a.At), time.Millisecond)
		err = limitReached(schema.CodeOverloaded, "the tenant's limit of %d language model calls a minute is reached: there is room again in %s", *n,
			again.Round(time.Second))
		return again, err
	}
	return 0, nil
}

// fit checks the budgets. Its error names a budget that r exceeds. A time with the error says that
// r may fit when calls in progress cost less than they reserved.
func (a Account) fit(r Reservation) (again time.Duration, err error) {
	_, tomorrow := a.today()
	_, nextMonth := a.thisMonth()
	for _, b := range []struct {
		limit                *int64
		used, reserved, more int64
		per                  string
		resets               time.Time
		text                 func(int64) string
	}{
		{a.Limits.DayTokens, a.Day.tokens(), a.ReservedTokens, r.Tokens, "a day", tomorrow, tokensText},
		{a.Limits.MonthTokens, a.Month.tokens(), a.ReservedTokens, r.Tokens, "a month", nextMonth, tokensText},
		{a.Limits.DayNanos, a.Day.Nanos, a.ReservedNanos, r.Nanos, "a day", tomorrow, dollarsText},
		{a.Limits.MonthNanos, a.Month.Nanos, a.ReservedNanos, r.Nanos, "a month", nextMonth, dollarsText},
	} {
		if b.limit == nil || b.used+b.reserved+b.more <= *b.limit {
			continue
		}
		err = limitReached(schema.CodeQuota, "the tenant's budget for language models of %s %s has no room for this call: %s used, "+
			"up to %s more by calls in progress, and up to %s by this one; it resets at %s", b.text(*b.limit), b.per, b.text(b.used), b.text(b.reserved),
			b.text(b.more), b.resets.Format(time.RFC3339))
		if b.used+b.more > *b.limit {
			return 0, err
		}
		again = retryDelay
	}
	return again, err
}

func tokensText(n int64) string { return strconv.FormatInt(n, 10) + " tokens" }

func dollarsText(nanos int64) string {
	s := strings.TrimRight(strconv.FormatFloat(Dollars(nanos), 'f', 9, 64), "0")
	if point := strings.IndexByte(s, '.'); len(s) < point+3 {
		s += strings.Repeat("0", point+3-len(s))
	}
	return "$" + s
}

// today returns when the account's day began and when it ends. Budgets are of days and months in
// UTC.
func (a Account) today() (since, resets time.Time) {
	at := a.At.UTC()
	since = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	return since, since.AddDate(0, 0, 1)
}

func (a Account) thisMonth() (since, resets time.Time) {
	at := a.At.UTC()
	since = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return since, since.AddDate(0, 1, 0)
}

// Usage returns the account as its tenant sees it.
func (a Account) Usage() schema.LLMUsage {
	return schema.LLMUsage{
		Limits: schema.LLMLimits{TokensPerDay: a.Limits.DayTokens, TokensPerMonth: a.Limits.MonthTokens, DollarsPerDay: dollarsOf(a.Limits.DayNanos),
			DollarsPerMonth: dollarsOf(a.Limits.MonthNanos), CallsPerMinute: a.Limits.PerMinute, CallsAtOnce: a.Limits.AtOnce},
		Day: a.Day.spent(a.today()), Month: a.Month.spent(a.thisMonth()),
		InProgress: a.Open, ReservedTokens: a.ReservedTokens, ReservedDollars: Dollars(a.ReservedNanos),
	}
}

func (s AccountSums) spent(since, resets time.Time) schema.LLMSpent {
	return schema.LLMSpent{Since: since, Resets: resets, Calls: s.Calls, Cached: s.Cached, InputTokens: s.Input, OutputTokens: s.Output, Dollars: Dollars(s.Nanos)}
}

func dollarsOf(nanos *int64) *float64 {
	if nanos == nil {
		return nil
	}
	d := Dollars(*nanos)
	return &d
}

// LimitsOf checks a tenant's new limits and converts them.
func LimitsOf(l schema.LLMLimits) (AccountLimits, error) {
	nanos := map[string]*int64{}
	for field, dollars := range map[string]*float64{"dollars_per_day": l.DollarsPerDay, "dollars_per_month": l.DollarsPerMonth} {
		if dollars == nil {
			continue
		}
		if !(*dollars >= 0 && *dollars <= 1e9) {
			return AccountLimits{}, schema.Invalid(field, "%g: needs a number of US dollars from 0 to a billion", *dollars)
		}
		n := NanosOf(*dollars)
		nanos[field] = &n
	}
	for field, n := range map[string]*int64{"tokens_per_day": l.TokensPerDay, "tokens_per_month": l.TokensPerMonth, "calls_per_minute": toInt64(l.CallsPerMinute), "calls_at_once": toInt64(l.CallsAtOnce)} {
		if n != nil && *n < 0 {
			return AccountLimits{}, schema.Invalid(field, "%d is negative", *n)
		}
	}
	return AccountLimits{DayTokens: l.TokensPerDay, MonthTokens: l.TokensPerMonth, DayNanos: nanos["dollars_per_day"],
		MonthNanos: nanos["dollars_per_month"], PerMinute: l.CallsPerMinute, AtOnce: l.CallsAtOnce}, nil
}

func toInt64(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}
