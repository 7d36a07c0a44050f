package tenants

// This file forgets entries of the audit log that are old.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// leastAudit is for how many days an entry is kept at least: the database removes none
// that is younger (migration 220).
const leastAudit = 30

// CheckAuditRetention reports what is wrong with a number of days that the audit log is
// kept, as a FieldError. 0 is for ever.
func CheckAuditRetention(days int) error {
	if days != 0 && (days < leastAudit || days > schema.MaxKeepDays) {
		return schema.Invalid("SLUICE_KEEP_AUDIT", "%d: needs a number of days from %d to %d; 0 for ever", days, leastAudit, schema.MaxKeepDays)
	}
	return nil
}

const forgetAuditSQL = `
DELETE FROM audit WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM audit WHERE at < now() - make_interval(days => $1) ORDER BY at LIMIT $2)`

// ForgetAudit removes up to limit entries of the audit log, of all tenants, that are
// older than so many days; 0 days keep all. It returns how many; when that is 0 nothing
// is left to do now.
func (s *TenantStore) ForgetAudit(ctx context.Context, days, limit int) (int, error) {
	if days == 0 {
		return 0, nil
	}
	n := 0
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, forgetAuditSQL, days, limit)
		n = int(tag.RowsAffected())
		return err
	})
	return n, store.Wrap(err, "forget entries of the audit log older than %d days", days)
}
