package rclonefs

// Permissions of files in OneDrive and SharePoint, from Microsoft Graph: one request for each page
// of a file's permissions.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/fserrors"
	"github.com/rclone/rclone/fs/fshttp"
	"github.com/rclone/rclone/lib/pacer"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sluice-rag/sluice/cmd/source-worker/retry"
	"github.com/sluice-rag/sluice/internal/source"
)

const (
	graphDrives = "https://graph.microsoft.com/v1.0/drives/"
	graphLogin  = "https://login.microsoftonline.com/"
	// graphGap is the minimum time between two requests.
	graphGap = 20 * time.Millisecond
	// graphBytes is the maximum size of a page of permissions.
	graphBytes = 16 << 20
)

// graphReaders reads permissions from Microsoft Graph.
type graphReaders struct {
	plain, signedIn *http.Client
	drive           string
	pacer           *fs.Pacer
}

// newGraphReaders uses the same credentials and connection settings as rclone's backend.
func newGraphReaders(c *connector, v values) (readers, error) {
	r := &graphReaders{plain: fshttp.NewClient(c.life), drive: v["drive_id"], pacer: fs.NewPacer(c.life, pacer.NewDefault(pacer.MinSleep(graphGap)))}
	ctx := context.WithValue(c.life, oauth2.HTTPClient, r.plain)
	at := graphLogin + cmp.Or(url.PathEscape(v["tenant"]), "common") + "/oauth2/v2.0/token"
	if v["tenant"] != "" {
		config := clientcredentials.Config{ClientID: v["client_id"], ClientSecret: v["client_secret"], TokenURL: at,
			Scopes: []string{"https://graph.microsoft.com/.default"}}
		r.signedIn = config.Client(ctx)
		return r, nil
	}
	var token oauth2.Token
	if err := json.Unmarshal([]byte(v["token"]), &token); err != nil {
		return nil, &source.FieldError{Field: "token", Reason: "it is not a token"}
	}
	config := oauth2.Config{ClientID: v["client_id"], ClientSecret: v["client_secret"], Endpoint: oauth2.Endpoint{TokenURL: at}}
	r.signedIn = config.Client(ctx, &token)
	return r, nil
}

func (r *graphReaders) close() { r.plain.CloseIdleConnections() }

// graphPage is a page of an item's permissions.
type graphPage struct {
	Value []graphPermission `json:"value"`
	Next  string            `json:"@odata.nextLink"`
}

// graphPermission is a permission in Graph's format. Personal drives only have the fields without
// V2.
type graphPermission struct {
	Roles                 []string         `json:"roles"`
	GrantedTo             *graphIdentities `json:"grantedTo"`
	GrantedToV2           *graphIdentities `json:"grantedToV2"`
	GrantedToIdentities   []graphIdentities
	GrantedToIdentitiesV2 []graphIdentities
	Expires               string `json:"expirationDateTime"`
	HasPassword           bool   `json:"hasPassword"`
	Link                  *struct {
		Type  string `json:"type"`
		Scope string `json:"scope"`
	} `json:"link"`
}

// graphIdentities identify one grantee, in the directory and at the site.
type graphIdentities struct {
	User, Group, SiteGroup, SiteUser *graphIdentity
}

type graphIdentity struct{ ID, DisplayName, Email string }

// of implements readers. An item that another drive shares has that drive's id before its own.
func (r *graphReaders) of(ctx context.Context, id string) ([]source.Principal, error) {
	drive, item, theirs := strings.Cut(id, "#")
	if !theirs {
		drive, item = r.drive, id
	}
	at := graphDrives + url.PathEscape(drive) + "/items/" + url.PathEscape(item) + "/permissions"
	var out []source.Principal
	for at != "" {
		var page graphPage
		err := r.pacer.Call(func() (again bool, err error) {
			page, again, err = r.page(ctx, at)
			return again && ctx.Err() == nil, err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range page.Value {
			for _, reader := range p.readers(time.Now()) {
				if !slices.ContainsFunc(out, func(o source.Principal) bool { return o.ID == reader.ID }) {
					out = append(out, reader)
				}
			}
		}
		if at = page.Next; at != "" && !strings.HasPrefix(at, graphDrives) {
			return nil, fmt.Errorf("the next page of permissions is at another service, %q", at)
		}
	}
	return out, nil
}

// page requests a page. again reports whether the request may be repeated at once.
func (r *graphReaders) page(ctx context.Context, at string) (page graphPage, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return page, false, err
	}
	response, err := r.signedIn.Do(request)
	if err != nil {
		return page, fserrors.ShouldRetry(err), err
	}
	defer response.Body.Close()
	err = fmt.Errorf("the service answered %s", response.Status)
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		if err := json.NewDecoder(io.LimitReader(response.Body, graphBytes)).Decode(&page); err != nil {
			return page, false, fmt.Errorf("read permissions: %w", err)
		}
		return page, false, nil
	case code == http.StatusForbidden, code == http.StatusNotFound:
		return page, false, &untoldError{err}
	case code == http.StatusUnauthorized:
		return page, false, fmt.Errorf("%w: %w", source.ErrRefused, err)
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "":
		return page, false, &source.RateLimitError{After: retry.After(response.Header)}
	default:
		return page, code >= 500, err
	}
}

// graphRoles are the roles that may read, and graphLinks the types of links that show a file's
// content.
var (
	graphRoles = []string{"read", "write", "owner", "member"}
	graphLinks = []string{"view", "edit", "review"}
)

// readers returns whom a permission allows to read.
func (p graphPermission) readers(now time.Time) (out []source.Principal) {
	if p.HasPassword || !slices.ContainsFunc(p.Roles, func(role string) bool { return slices.Contains(graphRoles, role) }) {
		return nil
	}
	if p.Expires != "" {
		if ends, err := time.Parse(time.RFC3339, p.Expires); err != nil || !now.Before(ends) {
			return nil
		}
	}
	granted := p.GrantedToIdentitiesV2
	if granted == nil {
		granted = p.GrantedToIdentities
	}
	if one := cmp.Or(p.GrantedToV2, p.GrantedTo); one != nil {
		granted = append(slices.Clone(granted), *one)
	}
	if p.Link != nil {
		if !slices.Contains(graphLinks, p.Link.Type) {
			return nil
		}
		switch p.Link.Scope {
		case "anonymous":
			out = append(out, source.Principal{ID: "anyone:link", Group: true, Name: "everybody who has the link"})
		case "organization":
			out = append(out, source.Principal{ID: "organization:link", Group: true, Name: "everybody in the organization who has the link"})
		}
	}
	for _, who := range granted {
		if reader, known := who.principal(); known {
			out = append(out, reader)
		}
	}
	return out
}

// principal identifies a grantee by its id in the directory if it has one, else by its id at the
// site.
func (g graphIdentities) principal() (source.Principal, bool) {
	for _, known := range []struct {
		kind  string
		group bool
		is    *graphIdentity
	}{{"user", false, g.User}, {"group", true, g.Group}, {"site-group", true, g.SiteGroup}, {"site-user", false, g.SiteUser}} {
		if known.is != nil && known.is.ID != "" {
			return source.Principal{ID: known.kind + ":" + known.is.ID, Group: known.group, Name: known.is.DisplayName, Email: known.is.Email}, true
		}
	}
	return source.Principal{}, false
}
