package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type auditCommand struct {
	List   auditList   `cmd:"" default:"withargs" help:"List who read what, or who changed what, newest first."`
	Export auditExport `cmd:"" help:"Write a chain of the log as JSON Lines."`
	Verify auditVerify `cmd:"" help:"Check that no entry was changed, removed, inserted or moved."`
}

// auditChain selects the entries that a command works on.
type auditChain struct {
	Chain   schema.AuditChain `enum:"reads,changes" default:"reads" help:"Who read what, or who changed what: ${enum}."`
	Unknown bool              `help:"Requests with unknown keys; for operators."`
}

func (a auditChain) check() error {
	if a.Unknown && a.Chain == schema.AuditChanges {
		return schema.Invalid("unknown", "is only for --chain reads: requests with unknown keys change nothing")
	}
	return nil
}

type auditList struct {
	remote
	auditChain
	Actor      string    `help:"Id or name of a key, or a person."`
	Action     string    `help:"An operation, as search or get-content; of changes as document.delete."`
	Document   string    `help:"Id of a document."`
	Collection string    `short:"c" help:"Name or id of a collection."`
	From       time.Time `placeholder:"TIME" help:"Not before this time, as 2026-01-31T00:00:00Z."`
	To         time.Time `placeholder:"TIME" help:"Before this time."`
}

func (l *auditList) Run(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	c, err := l.client()
	if err != nil {
		return err
	}
	filter := apiclient.AuditFilter{From: l.From, To: l.To, Action: l.Action, Actor: l.Actor, Document: l.Document, Collection: l.Collection, Unknown: l.Unknown}
	if l.Chain == schema.AuditChanges {
		return printList(l.JSON, c.AuditChanges(ctx, filter), "AT WHO ACTION TARGET", func(e api.AuditEntry) []any {
			return []any{e.At.Local().Format(time.DateTime), e.Actor, e.Action, e.Target}
		})
	}
	return printList(l.JSON, c.AuditReads(ctx, filter), "AT WHO ADDRESS ACTION STATUS WHAT", func(r schema.AuditRead) []any {
		return []any{r.At.Local().Format(time.DateTime), cmp.Or(r.Person, r.KeyName, "-"), r.Address, strings.TrimSpace(r.Action + " " + r.Via), r.Status,
			cmp.Or(r.Query, r.Target, r.Collection)}
	})
}

type auditExport struct {
	remote
	auditChain
	Out   string `short:"o" default:"-" placeholder:"FILE" help:"File to write; - is standard output."`
	After int64  `help:"Number of the last entry that is known; those after it are written."`
}

func (e *auditExport) Run(ctx context.Context) error {
	if err := e.check(); err != nil {
		return err
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	var n, last int64
	err = write(e.Out, func(w io.Writer) (err error) {
		n, last, err = c.ExportAudit(ctx, w, e.Chain, e.After, e.Unknown)
		return err
	})
	if err != nil {
		return err
	}
	if e.JSON && e.Out != "-" {
		return printJSON(map[string]int64{"entries": n, "last": last})
	}
	fmt.Fprintf(os.Stderr, "%d entries; the last has the number %d\n", n, last)
	return nil
}

type auditVerify struct {
	remote
	auditChain
}

func (v *auditVerify) Run(ctx context.Context) error {
	if err := v.check(); err != nil {
		return err
	}
	c, err := v.client()
	if err != nil {
		return err
	}
	verdict, err := c.VerifyAudit(ctx, v.Chain, v.Unknown)
	if err != nil {
		return err
	}
	if v.JSON {
		if err := printJSON(verdict); err != nil {
			return err
		}
	}
	if verdict.Break != nil {
		return fmt.Errorf("the chain of %s is broken at entry %d: %s", verdict.Chain, verdict.Break.Number, verdict.Break.Problem)
	}
	if !v.JSON {
		fmt.Printf("the chain of %s is intact: %d entries, the last has the number %d and the hash %s\n", verdict.Chain, verdict.Entries, verdict.Number, verdict.Hash)
	}
	return nil
}
