package mailbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"golang.org/x/net/html/charset"

	"github.com/sluice-rag/sluice/internal/source"
)

// listPosition is the position of a listing: after the message UID of Mailbox, whose UIDVALIDITY is
// Validity.
type listPosition struct {
	Mailbox  string   `json:"mailbox"`
	Validity uint32   `json:"validity,omitempty"`
	UID      imap.UID `json:"uid,omitempty"`
}

// box is a mailbox of the account.
type box struct{ name, path string }

// List implements source.Connector. It always lists everything, because one reply of the server has
// all messages of a mailbox.
func (a *account) List(ctx context.Context, cursor string) (source.Listing, error) {
	var pos listPosition
	if cursor != "" {
		if err := source.ReadCursor(cursor, &pos); err != nil {
			return source.Listing{}, err
		}
	}
	var out source.Listing
	err := a.withClient(ctx, func(c *imapclient.Client) (err error) {
		out, err = a.list(c, pos)
		return err
	})
	if err != nil {
		return source.Listing{}, fmt.Errorf("list %s: %w", a.address, err)
	}
	return out, nil
}

func (a *account) list(c *imapclient.Client, pos listPosition) (source.Listing, error) {
	boxes, err := a.boxes(c)
	if err != nil {
		return source.Listing{}, err
	}
	var out source.Listing
	opened := 0
	for _, b := range boxes {
		if b.name < pos.Mailbox {
			continue
		}
		if b.name != pos.Mailbox {
			pos = listPosition{Mailbox: b.name}
		}
		full := opened == pageMailboxes || len(out.Items) >= a.pageItems
		opened++
		if !full {
			if pos, full, err = a.messages(c, b, pos, &out); err != nil {
				return source.Listing{}, err
			}
		}
		if full {
			out.Next, err = source.Cursor(pos)
			return out, err
		}
	}
	return out, nil
}

// boxes returns the mailboxes to read, in the order of their names.
func (a *account) boxes(c *imapclient.Client) ([]box, error) {
	options := &imap.ListOptions{}
	caps := c.Caps()
	options.ReturnSpecialUse = caps.Has(imap.CapSpecialUse) && caps.Has(imap.CapListExtended)
	found, err := c.List("", "*", options).Collect()
	if err != nil {
		return nil, fmt.Errorf("list the mailboxes: %w", err)
	}
	var out []box
	for _, m := range found {
		if hasAnyAttr(m.Attrs, imap.MailboxAttrNoSelect, imap.MailboxAttrNonExistent) {
			continue
		}
		b := box{name: m.Mailbox, path: folder(m.Mailbox, m.Delim)}
		switch {
		case a.mailbox == "" && hasAnyAttr(m.Attrs, imap.MailboxAttrTrash, imap.MailboxAttrJunk, imap.MailboxAttrDrafts, imap.MailboxAttrAll,
			imap.MailboxAttrFlagged, imap.MailboxAttrImportant):
		case a.mailbox == "", b.path == a.mailbox, strings.HasPrefix(b.path, a.mailbox+"/"),
			b.path == "INBOX" && strings.EqualFold(a.mailbox, "INBOX"):
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, &source.FieldError{Field: "mailbox", Reason: fmt.Sprintf("there is no mailbox %q", a.mailbox)}
	}
	slices.SortFunc(out, func(x, y box) int { return cmp.Compare(x.name, y.name) })
	return slices.CompactFunc(out, func(x, y box) bool { return x.name == y.name }), nil
}

func hasAnyAttr(attrs []imap.MailboxAttr, anyOf ...imap.MailboxAttr) bool {
	return slices.ContainsFunc(attrs, func(attr imap.MailboxAttr) bool {
		return slices.ContainsFunc(anyOf, func(wanted imap.MailboxAttr) bool { return strings.EqualFold(string(attr), string(wanted)) })
	})
}

// messages appends the messages of a mailbox after a position to the page, as many as fit. It
// returns the new position, and whether there are more.
func (a *account) messages(c *imapclient.Client, b box, pos listPosition, out *source.Listing) (listPosition, bool, error) {
	selected, err := examine(c, b.name)
	var imapErr *imap.Error
	switch {
	case errors.As(err, &imapErr) && imapErr.Code == imap.ResponseCodeNonExistent:
		return pos, false, nil // deleted during the listing
	case errors.As(err, &imapErr) && imapErr.Code == imap.ResponseCodeNoPerm:
		out.Skipped = append(out.Skipped, source.Skipped{Path: b.path, Reason: "the server refuses access to the mailbox"})
		return pos, false, nil
	case err != nil:
		return pos, false, err
	case pos.Validity != 0 && pos.Validity != selected.UIDValidity:
		return pos, false, fmt.Errorf("the mailbox %s gave its messages new ids: %w", b.path, source.ErrCursorExpired)
	}
	pos.Validity = selected.UIDValidity
	if len(id(b.name, selected.UIDValidity, 1<<32-1)) > 1024 {
		out.Skipped = append(out.Skipped, source.Skipped{Path: b.path, Reason: "the mailbox has a name that is too long"})
		return pos, false, nil
	}
	uids, err := searchUIDs(c, pos.UID)
	if err != nil {
		return pos, false, fmt.Errorf("list the messages of %s: %w", b.path, err)
	}
	capacity := a.pageItems - len(out.Items)
	more := len(uids) > capacity
	uids = uids[:min(capacity, len(uids))]
	if len(uids) == 0 {
		return pos, more, nil
	}
	items, err := describe(c, b, selected.UIDValidity, uids)
	if err != nil {
		return pos, false, fmt.Errorf("read the subjects of %s: %w", b.path, err)
	}
	out.Items = append(out.Items, items...)
	pos.UID = uids[len(uids)-1]
	return pos, more, nil
}

// examine opens a mailbox read-only.
func examine(c *imapclient.Client, name string) (*imap.SelectData, error) {
	selected, err := c.Select(name, &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil {
		return nil, fmt.Errorf("open the mailbox %s: %w", name, err)
	}
	return selected, nil
}

// searchUIDs returns the UIDs of messages after a UID that are not marked as deleted.
func searchUIDs(c *imapclient.Client, after imap.UID) ([]imap.UID, error) {
	if after == 1<<32-1 {
		return nil, nil
	}
	criteria := &imap.SearchCriteria{NotFlag: []imap.Flag{imap.FlagDeleted}, UID: []imap.UIDSet{{{Start: after + 1, Stop: 0}}}}
	found, err := c.UIDSearch(criteria, nil).Wait()
	if err != nil {
		return nil, err
	}
	uids := slices.Sorted(slices.Values(found.AllUIDs()))
	from, _ := slices.BinarySearch(uids, after+1) // a range such as "5:*" always includes the last message
	return slices.Compact(uids[from:]), nil
}

// subject requests the one header from which an item's name is made.
var subject = &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, HeaderFields: []string{"Subject"}, Peek: true,
	Partial: &imap.SectionPartial{Size: 4 << 10}}

// describe returns the items of messages.
func describe(c *imapclient.Client, b box, validity uint32, uids []imap.UID) ([]source.Item, error) {
	found, err := c.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, InternalDate: true, RFC822Size: true,
		BodySection: []*imap.FetchItemBodySection{subject}}).Collect()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(x, y *imapclient.FetchMessageBuffer) int { return cmp.Compare(x.UID, y.UID) })
	found = slices.CompactFunc(found, func(x, y *imapclient.FetchMessageBuffer) bool { return x.UID == y.UID })
	var out []source.Item
	for _, m := range found {
		if _, requested := slices.BinarySearch(uids, m.UID); !requested {
			continue
		}
		var header []byte
		for _, section := range m.BodySection {
			header = section.Bytes
		}
		out = append(out, source.Item{ID: id(b.name, validity, m.UID), Path: fmt.Sprintf("%s/%d %s.eml", b.path, m.UID, title(header)),
			Version: version(validity, m.UID), Size: m.RFC822Size, Modified: m.InternalDate})
	}
	return out, nil
}

// id identifies a message while its mailbox keeps its UIDVALIDITY (RFC 9051, 2.3.1.1).
func id(mailbox string, validity uint32, uid imap.UID) string {
	return fmt.Sprintf("%d/%d/%s", validity, uid, mailbox)
}

// version returns the version of a message, which never changes.
func version(validity uint32, uid imap.UID) string { return fmt.Sprintf("%d/%d", validity, uid) }

// readID parses an id.
func readID(id string) (mailbox string, validity uint32, uid imap.UID, ok bool) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	v, errV := strconv.ParseUint(parts[0], 10, 32)
	u, errU := strconv.ParseUint(parts[1], 10, 32)
	return parts[2], uint32(v), imap.UID(u), errV == nil && errU == nil
}

// folder returns the path of a mailbox, with slashes between its levels.
func folder(name string, delim rune) string {
	levels := []string{name}
	if delim != 0 {
		levels = strings.Split(name, string(delim))
	}
	for i, level := range levels {
		levels[i] = pathElement(level)
	}
	return strings.Join(levels, "/")
}

// maxTitleRunes is the maximum number of runes of a subject in an item's name.
const maxTitleRunes = 80

// title returns the subject as part of a file name.
func title(header []byte) string {
	text := ""
	if m, err := mail.ReadMessage(bytes.NewReader(append(bytes.TrimRight(header, "\r\n"), "\r\n\r\n"...))); err == nil {
		text = m.Header.Get("Subject")
	}
	decoder := mime.WordDecoder{CharsetReader: charset.NewReaderLabel}
	if decoded, err := decoder.DecodeHeader(text); err == nil {
		text = decoded
	}
	if runes := []rune(text); len(runes) > maxTitleRunes {
		text = string(runes[:maxTitleRunes])
	}
	if strings.TrimSpace(text) == "" {
		return "(no subject)"
	}
	return pathElement(strings.TrimSpace(text))
}

// pathElement makes a text usable as an element of a path.
func pathElement(text string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == '\\' || r == utf8.RuneError:
			return '_'
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text)
	if strings.Trim(out, ".") == "" {
		return "_"
	}
	return out
}
