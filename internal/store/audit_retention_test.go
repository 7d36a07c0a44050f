package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/auditlog"
	"github.com/sluice-rag/sluice/schema"
)

// Old entries of the audit log of all tenants are removed, a limited number at a time. Younger ones
// stay, and nobody can remove entries younger than 30 days.
func TestOldEntriesOfTheAuditLogGo(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, p := range []schema.Principal{f.a, f.b} {
		execAs(t, f, p, `INSERT INTO audit (tenant_id, id, at, actor, action, target)
			SELECT $1, gen_random_uuid(), now() - make_interval(days => n), 'system', 'test', n::text FROM unnest('{10, 29, 399, 401, 500, 900}'::int[]) n`, p.Tenant)
	}
	count := func(p schema.Principal) string {
		return one[string](t, f, p, `SELECT coalesce(string_agg(target, ' ' ORDER BY target::int), '') FROM audit WHERE action = 'test'`)
	}
	if n, err := f.ForgetAudit(t.Context(), 0, 4); n != 0 || err != nil {
		t.Errorf("kept for ever, and %d went, %v", n, err)
	}
	var chunks []int
	for {
		n, err := f.ForgetAudit(t.Context(), 400, 4)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		chunks = append(chunks, n)
	}
	if fmt.Sprint(chunks) != "[4 2]" {
		t.Errorf("%v went at a time, want [4 2]", chunks)
	}
	for _, p := range []schema.Principal{f.a, f.b} {
		if left := count(p); left != "10 29 399" {
			t.Errorf("entries of %s days are left", left)
		}
	}
	// The system role does not see younger ones.
	err := f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM audit`)
		return err
	})
	if left := count(f.a); err != nil || left != "10 29" {
		t.Errorf("entries of %s days are left, %v", left, err)
	}
	owner := connect(t, f.owner)
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := owner.Exec(t.Context(), `DELETE FROM audit`); !errors.Is(store.Translate(err), schema.ErrForbidden) {
		t.Errorf("the owner removed entries: %v", err)
	}
	for days, good := range map[int]bool{0: true, 30: true, 400: true, 29: false, -1: false, schema.MaxKeepDays + 1: false} {
		err := auditlog.CheckAuditRetention(days)
		var wrong *schema.FieldError
		if named := errors.As(err, &wrong) && wrong.Field == "SLUICE_KEEP_AUDIT"; named == good {
			t.Errorf("%d days: %v", days, err)
		}
	}
}
