package apiclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// AuditFilter selects entries of the audit log; empty fields select all.
type AuditFilter struct {
	From, To                            time.Time
	Action, Actor, Document, Collection string
	// Unknown selects requests with unknown keys.
	Unknown bool
}

func (f AuditFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"action": f.Action, "actor": f.Actor, "document": f.Document, "collection": f.Collection} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	setUnknown(q, f.Unknown)
	return q
}

func setUnknown(q url.Values, unknown bool) {
	if unknown {
		q.Set("unknown", "true")
	}
}

// AuditReads lists who read what, the last written first.
func (c *Client) AuditReads(ctx context.Context, f AuditFilter) iter.Seq2[schema.AuditRead, error] {
	return pages[schema.AuditRead](ctx, c, "/v1/audit/reads", f.query())
}

// AuditChanges lists who changed what, newest first.
func (c *Client) AuditChanges(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEntry, error] {
	return pages[api.AuditEntry](ctx, c, "/v1/audit", f.query())
}

// ExportAudit writes the entries of a chain with numbers above after, one line of JSON each. It
// returns how many it wrote, and the number of the last one.
func (c *Client) ExportAudit(ctx context.Context, w io.Writer, chain schema.AuditChain, after int64, unknown bool) (n, last int64, err error) {
	q := url.Values{"chain": {string(chain)}}
	setUnknown(q, unknown)
	for last = after; ; {
		q.Set("after", strconv.FormatInt(last, 10))
		lines, err := c.auditLines(ctx, q)
		if err != nil || len(lines) == 0 {
			return n, last, err
		}
		for _, line := range lines {
			var entry struct {
				Number int64 `json:"number"`
			}
			if err := json.Unmarshal(line, &entry); err != nil || entry.Number <= last {
				return n, last, errors.Join(fmt.Errorf("the server sent no entry after %d: %.200s", last, line), err)
			}
			if _, err := w.Write(line); err != nil {
				return n, last, fmt.Errorf("write an entry of the audit log: %w", err)
			}
			n, last = n+1, entry.Number
		}
	}
}

// auditLines returns the lines of one request.
func (c *Client) auditLines(ctx context.Context, q url.Values) (lines [][]byte, err error) {
	const path = "/v1/audit/export"
	k, err := newCall(http.MethodGet, path, q, nil)
	if err != nil {
		return nil, err
	}
	err = c.do(ctx, k, replyReader(func(r *http.Response) error {
		read := bufio.NewReader(r.Body)
		for {
			line, err := read.ReadBytes('\n')
			switch {
			case err == nil:
				lines = append(lines, line)
			case errors.Is(err, io.EOF) && len(line) == 0:
				return nil
			default: // a line without its end was cut off
				return fmt.Errorf("read the reply of GET %s: %w", path, err)
			}
		}
	}))
	return lines, err
}

// VerifyAudit verifies a chain.
func (c *Client) VerifyAudit(ctx context.Context, chain schema.AuditChain, unknown bool) (schema.AuditVerdict, error) {
	q := url.Values{"chain": {string(chain)}}
	setUnknown(q, unknown)
	return get[schema.AuditVerdict](ctx, c, "/v1/audit/verify", q)
}
