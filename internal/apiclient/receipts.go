package apiclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/api"
)

// Receipt returns the signed receipt of a question's answer, exactly as served, cut to most bytes.
func (c *Client) Receipt(ctx context.Context, question uuid.UUID, most int64) ([]byte, error) {
	return c.bytes(ctx, "/v1/questions/"+question.String()+"/receipt", nil, most)
}

// ReceiptKeys lists the public keys that verify the server's receipts.
func (c *Client) ReceiptKeys(ctx context.Context) ([]api.ReceiptKey, error) {
	keys, err := get[api.ReceiptKeys](ctx, c, "/v1/receipts/keys", nil)
	return keys.Keys, err
}

// Content returns the bytes of a document's version, cut to most bytes.
func (c *Client) Content(ctx context.Context, document, version uuid.UUID, most int64) ([]byte, error) {
	return c.bytes(ctx, documentPath(document)+"/content", url.Values{"version": {version.String()}}, most)
}

func (c *Client) bytes(ctx context.Context, path string, query url.Values, most int64) (out []byte, err error) {
	k, err := newCall(http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	err = c.do(ctx, k, replyReader(func(r *http.Response) error {
		if out, err = io.ReadAll(io.LimitReader(r.Body, most)); err != nil {
			return fmt.Errorf("read the reply of GET %s: %w", path, err)
		}
		return nil
	}))
	return out, err
}
