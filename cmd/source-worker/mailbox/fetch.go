package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/sluice-rag/sluice/internal/source"
)

// Fetch implements source.Connector.
func (a *account) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	var content []byte
	err := a.withClient(ctx, func(c *imapclient.Client) (err error) {
		content, err = a.content(c, item.ID)
		return err
	})
	if err != nil {
		return source.Download{}, fmt.Errorf("fetch message %s: %w", item.ID, err)
	}
	return source.Download{Body: io.NopCloser(bytes.NewReader(content)), MediaType: "message/rfc822", Version: item.Version}, nil
}

func (a *account) content(c *imapclient.Client, item string) ([]byte, error) {
	mailbox, validity, uid, ok := readID(item)
	if !ok {
		return nil, source.ErrGone
	}
	selected, err := examine(c, mailbox)
	var imapErr *imap.Error
	if errors.As(err, &imapErr) && imapErr.Code == imap.ResponseCodeNonExistent || err == nil && selected.UIDValidity != validity {
		return nil, source.ErrGone
	}
	if err != nil {
		return nil, err
	}
	m, err := readMessage(c, uid, a.maxBytes)
	switch {
	case err != nil:
		return nil, err
	case !m.found || m.deleted:
		return nil, source.ErrGone
	case int64(len(m.content)) > a.maxBytes:
		return nil, &source.ItemError{Reason: fmt.Sprintf("it is larger than %d bytes", a.maxBytes)}
	}
	return m.content, nil
}

// message is a message as the server sent it.
type message struct {
	content        []byte
	found, deleted bool
}

// readMessage reads a message up to maxBytes+1 bytes, so that a longer one is noticed.
func readMessage(c *imapclient.Client, uid imap.UID, maxBytes int64) (out message, err error) {
	cmd := c.Fetch(imap.UIDSetNum(uid), &imap.FetchOptions{UID: true, Flags: true, BodySection: []*imap.FetchItemBodySection{
		{Peek: true, Partial: &imap.SectionPartial{Size: maxBytes + 1}}}})
	defer func() { err = errors.Join(err, cmd.Close()) }()
	for m := cmd.Next(); m != nil; m = cmd.Next() {
		for part := m.Next(); part != nil; part = m.Next() {
			switch part := part.(type) {
			case imapclient.FetchItemDataFlags:
				out.deleted = slices.Contains(part.Flags, imap.FlagDeleted)
			case imapclient.FetchItemDataBodySection:
				if part.Literal == nil {
					continue
				}
				if part.Literal.Size() > maxBytes+1 {
					return out, errors.New("the server sends more of a message than was asked for")
				}
				if out.content, err = io.ReadAll(part.Literal); err != nil {
					return out, err
				}
				if int64(len(out.content)) < part.Literal.Size() {
					return out, fmt.Errorf("%d bytes of %d came: %w", len(out.content), part.Literal.Size(), io.ErrUnexpectedEOF)
				}
				out.found = true
			}
		}
	}
	return out, nil
}
