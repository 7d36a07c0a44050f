package main

// Usage and budgets of language models.

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

type tenantsUsage struct {
	remote
	Tenant string `arg:"" optional:"" help:"The tenant's name or id; the key's own tenant when left out."`
}

func (u *tenantsUsage) Run(ctx context.Context) error {
	c, err := u.client()
	if err != nil {
		return err
	}
	var usage schema.LLMUsage
	if u.Tenant == "" {
		usage, err = c.LLMUsage(ctx)
	} else {
		id, parsing := tenantID(ctx, c, u.Tenant)
		if parsing != nil {
			return parsing
		}
		usage, err = c.TenantLLMUsage(ctx, id)
	}
	if err != nil {
		return err
	}
	if u.JSON {
		return printJSON(usage)
	}
	return printUsage(os.Stdout, usage)
}

type tenantsLimits struct {
	remote
	Tenant          string   `arg:"" help:"The tenant's name or id."`
	TokensPerDay    *int64   `help:"Input and output tokens of a day (UTC); no limit when left out, as all of these."`
	TokensPerMonth  *int64   `help:"Input and output tokens of a month (UTC)."`
	DollarsPerDay   *float64 `help:"US dollars of a day (UTC), at the providers' prices."`
	DollarsPerMonth *float64 `help:"US dollars of a month (UTC)."`
	CallsPerMinute  *int     `help:"Calls that begin within any 60 seconds."`
	CallsAtOnce     *int     `help:"Calls in progress."`
}

func (l *tenantsLimits) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	id, err := tenantID(ctx, c, l.Tenant)
	if err != nil {
		return err
	}
	usage, err := c.SetLLMLimits(ctx, id, schema.LLMLimits{TokensPerDay: l.TokensPerDay, TokensPerMonth: l.TokensPerMonth,
		DollarsPerDay: l.DollarsPerDay, DollarsPerMonth: l.DollarsPerMonth, CallsPerMinute: l.CallsPerMinute, CallsAtOnce: l.CallsAtOnce})
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(usage)
	}
	return printUsage(os.Stdout, usage)
}

func printUsage(w io.Writer, u schema.LLMUsage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\tCALLS\tCACHED\tTOKENS IN\tTOKENS OUT\tOF\tDOLLARS\tOF\tRESETS")
	for _, s := range []struct {
		name    string
		spent   schema.LLMSpent
		tokens  *int64
		dollars *float64
	}{{"today", u.Day, u.Limits.TokensPerDay, u.Limits.DollarsPerDay}, {"this month", u.Month, u.Limits.TokensPerMonth, u.Limits.DollarsPerMonth}} {
		tokens, dollars := "any", "any"
		if s.tokens != nil {
			tokens = strconv.FormatInt(*s.tokens, 10)
		}
		if s.dollars != nil {
			dollars = fmt.Sprintf("%.2f", *s.dollars)
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%.6f\t%s\t%s\n", s.name, s.spent.Calls, s.spent.Cached, s.spent.InputTokens, s.spent.OutputTokens,
			tokens, s.spent.Dollars, dollars, s.spent.Resets.Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "in progress: %d calls, which may cost %d tokens and $%.6f; %s a minute, %s at once\n", u.InProgress, u.ReservedTokens, u.ReservedDollars,
		callsText(u.Limits.CallsPerMinute), callsText(u.Limits.CallsAtOnce))
	return err
}

func callsText(n *int) string {
	if n == nil {
		return "any number"
	}
	return fmt.Sprint("at most ", *n)
}
