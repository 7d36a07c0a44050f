package auditlog

// This file removes old entries, and creates the partitions of coming months.

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// minAuditDays is the least number of days that an entry is kept: the database refuses to remove
// younger ones (migrations 220 and 232).
const minAuditDays = 30

// CheckAuditRetention checks the number of days that changes are kept, and returns a FieldError for
// one that is out of bounds. 0 keeps them for ever.
func CheckAuditRetention(days int) error { return checkRetention("SLUICE_KEEP_AUDIT", days) }

// CheckReadsRetention is like CheckAuditRetention, for reads.
func CheckReadsRetention(days int) error { return checkRetention("SLUICE_KEEP_AUDIT_READS", days) }

func checkRetention(setting string, days int) error {
	if days != 0 && (days < minAuditDays || days > schema.MaxKeepDays) {
		return schema.Invalid(setting, "%d: needs a number of days from %d to %d; 0 for ever", days, minAuditDays, schema.MaxKeepDays)
	}
	return nil
}

const forgetAuditSQL = `
DELETE FROM audit WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM audit WHERE at < now() - make_interval(days => $1) ORDER BY at LIMIT $2)`

// ForgetAudit removes up to limit changes, of all tenants, that are older than days, and returns
// how many it removed: 0 when none is left to remove now. 0 days keep all.
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

// ForgetReads drops the oldest monthly partition of reads when all of it is older than days, and
// returns its name, or the empty string when there is none. 0 days keep all.
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

// MakeAuditMonths creates the missing partitions for the reads of this month and of the next
// monthsAhead ones.
func (s *AuditStore) MakeAuditMonths(ctx context.Context) error {
	return store.Wrap(s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT sluice_audit_months($1)`, monthsAhead)
		return err
	}), "make partitions of the audit log")
}
