// Package source defines what is needed to keep a collection in step with an external source: a
// file share, a web site, a mailbox, a repository. A Connector lists the items of a source and
// fetches them. Everything else (what is new, what was deleted, when to list again) is done by the
// synchronisation, in the same way for all sources. Error messages call the external system
// "the source's server".
package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Item is one file, page or message of a source, as a listing shows it.
type Item struct {
	// ID identifies the item in its source as long as it exists, and never any other item. It is a
	// stable id where the source has one, otherwise the path. At most 1,024 bytes.
	ID string
	// Path is where a person finds the item, with slashes but none at the start. Patterns are
	// matched against it, and its last element is the document's file name.
	Path string
	// Version changes whenever the content may have changed: a hash or an entity tag where the
	// source has one, otherwise size and time. It is empty if only fetching can tell.
	Version string
	// Size is in bytes; -1 if the source doesn't say.
	Size int64
	// Modified is zero if the source doesn't say.
	Modified time.Time
	// URL opens the item for a person; may be empty.
	URL string
	// Folder is the id of the item's folder, if permissions are asked for; empty: it is in none.
	Folder string
	// Access says who may see the item, if permissions are asked for; nil: that is unknown, and
	// nobody sees it.
	Access *Access
}

// Listing is one page of the items of a source.
type Listing struct {
	Items []Item
	// Folders are the folders from which items inherit access, if permissions are asked for.
	Folders []AccessFolder
	// Deleted are the ids of items and folders that are known to be deleted. Only sources that list
	// changes fill it.
	Deleted []string
	// Skipped are things that can't be items, and items that nobody may see because it is unknown
	// who may, with reasons.
	Skipped []Skipped
	// Next is the cursor of the next page; empty if this page is the last.
	Next string
	// Changes is the cursor of a later listing that shows only what changed after this one; empty
	// if the source always lists everything. Only that of the last page counts.
	Changes string
}

// Skipped is something that a listing, or a synchronisation, left out.
type Skipped struct {
	Path   string
	Reason string
}

// Download is what Fetch found. The caller closes Body.
type Download struct {
	Body io.ReadCloser
	// MediaType is the one that the source states, or empty.
	MediaType string
	// Version is that of the content in Body, if it is known better than from the listing.
	Version string
	// NotModified is true if the source said that the content is still that of the item's Version;
	// Body is nil then.
	NotModified bool
}

// Connector is an open connection to one source. It is safe for concurrent use. Every method ends
// when its context does.
type Connector interface {
	// List returns the page at cursor. The empty cursor begins a listing of everything;
	// Listing.Next continues a listing, also in another process; Listing.Changes begins a listing
	// of what changed. An item may occur twice in one listing if it was moved meanwhile. If the
	// source no longer knows the cursor, the error is ErrCursorExpired, and the listing has to
	// begin again.
	List(ctx context.Context, cursor string) (Listing, error)
	// Fetch opens an item's content. If the item no longer exists, the error is ErrGone.
	Fetch(ctx context.Context, item Item) (Download, error)
	Close() error
}

// Driver opens connectors to one kind of source.
type Driver struct {
	// Name is the name of the kind of source in settings: "webdav", "web", "git".
	Name string
	// Summary is one sentence for people who choose a driver.
	Summary string
	// Fields are the driver's settings, in the order in which they are asked for.
	Fields []Field
	// Open connects to a source. It fails if the settings are wrong or the source refuses them. An
	// error about one setting is a *FieldError.
	Open func(ctx context.Context, settings Settings) (Connector, error)
}

// Field describes one setting of a driver.
type Field struct {
	Name     string
	Summary  string
	Required bool
	// Secret values are stored encrypted and are never shown again.
	Secret bool
	// Values are the allowed values; nil: any text is allowed.
	Values []string
}

// Settings are the values of a driver's fields by their names, secrets included, and what the
// operator allows.
type Settings struct {
	Values map[string]string
	// Include and Exclude are patterns of paths, which connectors may use to save requests. The
	// synchronisation matches listed items again.
	Include, Exclude []string
	// MaxItemBytes is the maximum size of an item; larger ones are skipped without being fetched.
	MaxItemBytes int64
	// AllowPrivate allows connections to loopback, link-local and private addresses.
	AllowPrivate bool
	// Roots are the folders of the machine that connectors may read.
	Roots []string
	// Permissions asks for permissions: who may see what.
	Permissions bool
}

// ErrGone is the error of fetching an item that no longer exists.
var ErrGone = errors.New("it is not there any more")

// ErrCursorExpired is the error of listing from a cursor that the source no longer knows.
var ErrCursorExpired = errors.New("the source's server no longer accepts the cursor of the listing")

// ErrRefused is the error of a source that refuses the credentials: a wrong password, an expired
// token, a missing right. Trying again doesn't help; somebody has to change the settings.
var ErrRefused = errors.New("the source's server refuses the credentials")

// RateLimitError is the error of a source that asks for fewer requests.
type RateLimitError struct {
	// After is how long to wait; zero if the source doesn't say.
	After time.Duration
}

func (e *RateLimitError) Error() string {
	if e.After <= 0 {
		return "the source's server asks for fewer requests"
	}
	return fmt.Sprintf("the source's server asks to wait for %s", e.After)
}

// ItemError is the error of one item that can't be fetched, now or later. Other items can be.
type ItemError struct{ Reason string }

func (e *ItemError) Error() string { return e.Reason }

// FieldError is the error of a setting.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Cursor encodes v as a cursor.
func Cursor(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write the cursor of a listing: %w", err)
	}
	return string(data), nil
}

// ReadCursor decodes into v a cursor that Cursor made. A cursor of another form is
// ErrCursorExpired.
func ReadCursor(cursor string, v any) error {
	if err := json.Unmarshal([]byte(cursor), v); err != nil {
		return fmt.Errorf("read the cursor of a listing: %w", ErrCursorExpired)
	}
	return nil
}
