package auditlog

// This file forgets old entries, and makes the partitions of months to come.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// leastAudit is for how many days an entry is kept at least: the database removes none
// that is younger (migrations 220 and 232).
const leastAudit = 30

// CheckAuditRetention reports what is wrong with a number of days that the audit log is
// kept, as a FieldError. 0 is for ever.
func CheckAuditRetention(days int) error { return checkRetention("SLUICE_KEEP_AUDIT", days) }

// CheckReadsRetention is CheckAuditRetention for reads.
func CheckReadsRetention(days int) error { return checkRetention("SLUICE_KEEP_AUDIT_READS", days) }

func checkRetention(setting string, days int) error {
	if days != 0 && (days < leastAudit || days > schema.MaxKeepDays) {
		return schema.Invalid(setting, "%d: needs a number of days from %d to %d; 0 for ever", days, leastAudit, schema.MaxKeepDays)
	}
	return nil
}

const forgetAuditSQL = `
DELETE FROM audit WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM audit WHERE at < now() - make_interval(days => $1) ORDER BY at LIMIT $2)`

// ForgetAudit removes up to limit changes, of all tenants, that are older than so many
// days; 0 days keep all. It returns how many; when that is 0 nothing is left to do now.
func (s *AuditStore) ForgetAudit(ctx context.Context, days, limit int) (int, error) {
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

// ForgetReads drops the oldest month of reads when all of it is older than so many days,
// and names its partition; empty when there is none. 0 days keep all.
func (s *AuditStore) ForgetReads(ctx context.Context, days int) (string, error) {
	if days == 0 {
		return "", nil
	}
	var month *string
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT sluice_drop_audit_month($1)`, days).Scan(&month)
	})
	if err != nil || month == nil {
		return "", store.Wrap(err, "forget reads older than %d days", days)
	}
	return *month, nil
}

// MakeAuditMonths makes the partitions of this month's reads and the next ones', as far as they are
// missing.
func (s *AuditStore) MakeAuditMonths(ctx context.Context) error {
	return store.Wrap(s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT sluice_audit_months($1)`, monthsAhead)
		return err
	}), "make partitions of the audit log")
}
