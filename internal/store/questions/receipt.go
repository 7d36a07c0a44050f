package questions

// This file reads the contents of the receipt of a stored answer.

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const originSQL = `
SELECT a.plan_sha256, a.pack, a.pack_version, a.pack_sha256, coalesce(q.finished_at, a.created_at), a.purged_at IS NOT NULL
FROM answers a JOIN questions q ON q.tenant_id = a.tenant_id AND q.id = a.question_id
WHERE a.tenant_id = $1 AND a.question_id = $2`

// For answers that were stored before these columns existed, the current values are used; a purged
// version has no sections.
const citedSQL = `
SELECT coalesce(x.section, s.ordinal), v.sha256, v.bytes, coalesce(x.file->>'name', nullif(v.file_name, ''), x.external_id),
       coalesce(x.file->>'media_type', v.media_type), coalesce(x.file->>'language', c.language)
FROM citations x
JOIN versions v ON v.tenant_id = $1 AND v.id = x.version_id
JOIN collections c ON c.tenant_id = $1 AND c.id = v.collection_id
LEFT JOIN sections s ON s.tenant_id = $1 AND s.version_id = x.version_id AND s.id = x.section_id
WHERE x.tenant_id = $1 AND x.question_id = $2 ORDER BY x.ordinal`

// Receipt returns the contents of a receipt for the answer of one of p's questions, or of any of
// the tenant's for an admin. The error is schema.ErrForbidden when p may not read the answer, and
// schema.ErrConflict when the question has none.
func (s *QuestionStore) Receipt(ctx context.Context, p schema.Principal, id uuid.UUID) (receipt.Receipt, error) {
	var out receipt.Receipt
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, askedSQL+` AND id = $5`, askedBy(p, id)...)
		if err != nil {
			return err
		}
		q, err := pgx.CollectExactlyOneRow(rows, scanAsked)
		if err != nil {
			return store.Named(err, "question", id)
		}
		a, err := ReadAnswer(ctx, tx, p, id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("question %s is %s and has no answer, so it has no receipt: %w", id, q.State, schema.ErrConflict)
		case err != nil:
			return err
		case a.Withheld:
			return fmt.Errorf("the answer of question %s was made from documents that the key may not see now: %w", id, schema.ErrForbidden)
		}
		out, err = receiptOf(ctx, tx, p.Tenant, a)
		return err
	})
	return out, store.Wrap(err, "read what a receipt says")
}

func receiptOf(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, a schema.Answer) (receipt.Receipt, error) {
	out := receipt.Receipt{QuestionID: a.ID, Question: cmp.Or(a.Standalone, a.Question), Answer: a.Answer, Supported: a.Supported, Uncited: a.Uncited,
		Plan: receipt.AnsweringPlan{Name: a.Plan}, Citations: []receipt.CitedQuote{}}
	var answered time.Time
	var purged bool
	err := tx.QueryRow(ctx, originSQL, tenant, a.ID).Scan(&out.Plan.SHA256, &out.Pack.Name, &out.Pack.Version, &out.Pack.SHA256, &answered, &purged)
	if err != nil {
		return out, err
	}
	if purged {
		return out, fmt.Errorf("the answer of question %s was removed with a document that it was made from: %w", a.ID, schema.ErrConflict)
	}
	out.AnsweredAt = receipt.Time(answered)
	rows, err := tx.Query(ctx, citedSQL, tenant, a.ID)
	if err != nil {
		return out, err
	}
	type cited struct {
		section *int
		file    receipt.CitedFile
	}
	files, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c cited, err error) {
		var sum []byte
		err = row.Scan(&c.section, &sum, &c.file.Bytes, &c.file.Name, &c.file.MediaType, &c.file.Language)
		c.file.SHA256 = hex.EncodeToString(sum)
		return c, err
	})
	if err != nil {
		return out, err
	}
	if len(files) != len(a.Citations) {
		return out, fmt.Errorf("a version that the answer of question %s cites does not exist any more: %w", a.ID, schema.ErrConflict)
	}
	for i, c := range a.Citations {
		if files[i].section == nil {
			return out, fmt.Errorf("version %s of %q, which the answer cites, is not stored any more, and the place of the quote in it was not kept: %w",
				c.Span.Version, c.Document, schema.ErrConflict)
		}
		out.Citations = append(out.Citations, receipt.CitedQuote{Document: c.Document, DocumentID: c.DocumentID, Version: c.Span.Version, File: files[i].file,
			Section: *files[i].section, Start: c.Span.Start, End: c.Span.End, Quote: c.Quote, Page: c.Page, Boxes: receipt.Boxes(c.Boxes)})
	}
	return out, nil
}
