// Package source says what a place must offer that a collection is kept in step with: a share of
// files, a web site, a mailbox, a repository. A Connector lists what is there and fetches it;
// everything else (what is new, what is gone, when to come again) is the synchronisation's, and the
// same for all places.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Item is one file, page or message of a place, as a listing shows it.
type Item struct {
	// ID names the item in its place for as long as it is there, and no other item, ever. It is a
	// stable id where the place has one, else the path. At most 1,024 bytes.
	ID string
	// Path is where a person finds it, with slashes and without one at the start. Patterns are
	// matched against it, and its last element is the document's file name.
	Path string
	// Version changes whenever the content may have changed: a hash or an entity tag where the
	// place has one, else size and time. Empty where only fetching can tell.
	Version string
	// Size in bytes; -1 where the place doesn't say.
	Size int64
	// Modified is zero where the place doesn't say.
	Modified time.Time
	// URL opens the item for a person; may be empty.
	URL string
	// Folder is the id of the folder that it is in, where permissions are asked for; empty: it is
	// in none.
	Folder string
	// Access is who may see it, where that is asked for; nil: nobody knows, and nobody sees it.
	Access *Access
}

// Listing is one page of what a place has.
type Listing struct {
	Items []Item
	// Folders are those whose access items inherit, where permissions are asked for.
	Folders []AccessFolder
	// Deleted are the ids of items, and of folders, that are known to be gone. Only places that
	// list changes fill it.
	Deleted []string
	// Skipped are things that are there and can't be items, and items that nobody sees because
	// nobody knows who may, with reasons.
	Skipped []Skipped
	// Next is the cursor of the page that follows; empty where this page is the last.
	Next string
	// Changes is where a later listing may begin that shows only what changed after this one; empty
	// where the place lists everything every time. It counts on the last page alone.
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
	// MediaType as the place says it, or empty.
	MediaType string
	// Version of what is in Body, where it is known better than from the listing.
	Version string
	// NotModified is true where the place said that its content is still the one of the item's
	// Version; Body is nil then.
	NotModified bool
}

// Connector is an open connection to one place. It may be used by several goroutines. Every method
// ends when its context does.
type Connector interface {
	// List returns the page at cursor. The empty cursor begins a listing of everything;
	// Listing.Next goes on with a listing, in another process if need be; Listing.Changes begins
	// one of what changed. An item may come twice in one listing, when it was moved meanwhile. A
	// cursor that the place no longer knows is ErrCursorExpired, and the listing begins anew.
	List(ctx context.Context, cursor string) (Listing, error)
	// Fetch opens an item's content. One that is gone is ErrGone.
	Fetch(ctx context.Context, item Item) (Download, error)
	Close() error
}

// Driver opens connectors to one kind of place.
type Driver struct {
	// Name is what settings call the kind of place: "webdav", "web", "git".
	Name string
	// Summary is one sentence for whoever chooses.
	Summary string
	// Fields are the settings that it takes, in the order in which they are asked for.
	Fields []Field
	// Open connects to a place, and fails where the settings are wrong or the place refuses them.
	// An error about one setting is a *FieldError.
	Open func(ctx context.Context, settings Settings) (Connector, error)
}

// Field is one setting of a driver.
type Field struct {
	Name     string
	Summary  string
	Required bool
	// Secret values are encrypted where they are kept and are never shown again.
	Secret bool
	// Values are those allowed, where not every text is.
	Values []string
}

// Settings are the values of a driver's fields by their names, secrets included, and what the
// operator allows.
type Settings struct {
	Values map[string]string
	// Include and Exclude are patterns of paths, for connectors that can save themselves requests.
	// What they let through is matched again.
	Include, Exclude []string
	// MaxItemBytes is how large an item may be; larger ones are skipped without being fetched.
	MaxItemBytes int64
	// AllowPrivate lets connections go to loopback, link-local and private addresses.
	AllowPrivate bool
	// Roots are the folders of the machine that may be read.
	Roots []string
	// Permissions asks for who may see what.
	Permissions bool
}

// ErrGone is the error of fetching an item that is not there any more.
var ErrGone = errors.New("it is not there any more")

// ErrCursorExpired is the error of listing from a cursor that the place has forgotten.
var ErrCursorExpired = errors.New("the place no longer knows where the listing was")

// ErrRefused is the error of a place that refuses who asks: a password that is wrong, a token that
// expired, a right that is missing. Trying again doesn't help; somebody has to change the settings.
var ErrRefused = errors.New("the place refuses the credentials")

// RateLimitError is the error of a place that wants to be asked more slowly.
type RateLimitError struct {
	// After is how long to wait; zero where the place doesn't say.
	After time.Duration
}

func (e *RateLimitError) Error() string {
	if e.After <= 0 {
		return "the place asks for fewer requests"
	}
	return fmt.Sprintf("the place asks to wait for %s", e.After)
}

// ItemError is the error of one item that can't be fetched, now or later; others can.
type ItemError struct{ Reason string }

func (e *ItemError) Error() string { return e.Reason }

// FieldError is the error of a setting.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Cursor writes v as a cursor.
func Cursor(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write the cursor of a listing: %w", err)
	}
	return string(data), nil
}

// ReadCursor reads what Cursor wrote into v; a cursor of another form is ErrCursorExpired.
func ReadCursor(cursor string, v any) error {
	if err := json.Unmarshal([]byte(cursor), v); err != nil {
		return fmt.Errorf("read the cursor of a listing: %w", ErrCursorExpired)
	}
	return nil
}
