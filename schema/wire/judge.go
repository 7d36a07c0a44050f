package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// JudgeRequest asks a query worker to have the language model judge an answer against right ones.
type JudgeRequest struct {
	Envelope
	Principal schema.Principal `json:"principal"`
	schema.AnswerToJudge
	// DryRun makes no call: the reply only names the model that would judge.
	DryRun   bool      `json:"dry_run,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// TenantID implements OfTenant.
func (r JudgeRequest) TenantID() uuid.UUID { return r.Principal.Tenant }

// JudgeReply answers JudgeRequest.
type JudgeReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	schema.Judgement
}
