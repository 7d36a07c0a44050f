package ingestworker

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/stores"
)

// sendAuditEvery is the interval between checks for unsent entries of the audit log.
const sendAuditEvery = 2 * time.Second

// auditSender sends entries of the audit log to an external server. One worker at a time, the
// leader, runs it.
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
