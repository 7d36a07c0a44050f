package apiserver

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// receiptAPI signs receipts of the store's answers.
type receiptAPI struct {
	store   *questions.QuestionStore
	signer  *receipt.Signer // nil: there are no receipts
	version string
}

func (a receiptAPI) checkSigner() error {
	if a.signer == nil {
		return fmt.Errorf("this server signs no receipts: SLUICE_RECEIPT_KEY is not set: %w", schema.ErrNotFound)
	}
	return nil
}

// Receipt implements httpapi.Receipts.
func (a receiptAPI) Receipt(ctx context.Context, p schema.Principal, question uuid.UUID) ([]byte, error) {
	r, err := a.store.Receipt(ctx, p, question)
	if err == nil {
		err = a.checkSigner()
	}
	if err != nil {
		return nil, err
	}
	r.Software = a.version
	return a.signer.Sign(r)
}

// ReceiptKeys implements httpapi.Receipts.
func (a receiptAPI) ReceiptKeys(context.Context) (api.ReceiptKeys, error) {
	out := api.ReceiptKeys{Keys: []api.ReceiptKey{}}
	if err := a.checkSigner(); err != nil {
		return out, err
	}
	for _, key := range a.signer.Public() {
		out.Keys = append(out.Keys, api.ReceiptKey{ID: key.ID(), Key: key.String()})
	}
	return out, nil
}
