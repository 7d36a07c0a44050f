package ingestworker

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/stores"
)

// sendAuditEvery is how often entries of the audit log are looked for that are to be sent.
const sendAuditEvery = 2 * time.Second

// auditSender sends the audit log where it is kept, or watched, too. One of all leads.
func auditSender(s stores.All, address string) ([]lifecycle.Service, error) {
	if address == "" {
		return nil, nil
	}
	sender, err := audit.NewSender(s, address)
	if err != nil {
		return nil, err
	}
	return []lifecycle.Service{lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "sender of the audit log", Elector: s, Every: sendAuditEvery,
		Round: func(fetch, _ context.Context) error { return sender.SendAll(fetch) }})}, nil
}
