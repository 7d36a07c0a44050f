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
	// graphMinInterval is the minimum time between two requests.
	graphMinInterval = 20 * time.Millisecond
	// maxGraphPageBytes is the maximum size of a page of permissions.
	maxGraphPageBytes = 16 << 20
)

// graphPermissionReader reads permissions from Microsoft Graph.
type graphPermissionReader struct {
	baseClient, authClient *http.Client
	drive                  string
	pacer                  *fs.Pacer
}

// newGraphPermissionReader uses the same credentials and connection settings as rclone's backend.
func newGraphPermissionReader(c *connector, v values) (permissionReader, error) {
	r := &graphPermissionReader{baseClient: fshttp.NewClient(c.baseCtx), drive: v["drive_id"], pacer: fs.NewPacer(c.baseCtx, pacer.NewDefault(pacer.MinSleep(graphMinInterval)))}
	ctx := context.WithValue(c.baseCtx, oauth2.HTTPClient, r.baseClient)
	tokenURL := graphLogin + cmp.Or(url.PathEscape(v["tenant"]), "common") + "/oauth2/v2.0/token"
	if v["tenant"] != "" {
		config := clientcredentials.Config{ClientID: v["client_id"], ClientSecret: v["client_secret"], TokenURL: tokenURL,
			Scopes: []string{"https://graph.microsoft.com/.default"}}
		r.authClient = config.Client(ctx)
		return r, nil
	}
	var token oauth2.Token
	if err := json.Unmarshal([]byte(v["token"]), &token); err != nil {
		return nil, &source.FieldError{Field: "token", Reason: "it is not a token"}
	}
	config := oauth2.Config{ClientID: v["client_id"], ClientSecret: v["client_secret"], Endpoint: oauth2.Endpoint{TokenURL: tokenURL}}
	r.authClient = config.Client(ctx, &token)
	return r, nil
}

func (r *graphPermissionReader) close() { r.baseClient.CloseIdleConnections() }

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

// readers implements permissionReader. An item that another drive shares has that drive's id before
// its own.
func (r *graphPermissionReader) readers(ctx context.Context, id string) ([]source.Principal, error) {
	drive, item, shared := strings.Cut(id, "#")
	if !shared {
		drive, item = r.drive, id
	}
	pageURL := graphDrives + url.PathEscape(drive) + "/items/" + url.PathEscape(item) + "/permissions"
	var out []source.Principal
	for pageURL != "" {
		var page graphPage
		err := r.pacer.Call(func() (retriable bool, err error) {
			page, retriable, err = r.page(ctx, pageURL)
			return retriable && ctx.Err() == nil, err
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
		if pageURL = page.Next; pageURL != "" && !strings.HasPrefix(pageURL, graphDrives) {
			return nil, fmt.Errorf("the next page of permissions is at another service, %q", pageURL)
		}
	}
	return out, nil
}

// page requests a page. retriable reports whether the request may be repeated at once.
func (r *graphPermissionReader) page(ctx context.Context, pageURL string) (page graphPage, retriable bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pageURL, nil)
	if err != nil {
		return page, false, err
	}
	response, err := r.authClient.Do(request)
	if err != nil {
		return page, fserrors.ShouldRetry(err), err
	}
	defer response.Body.Close()
	err = fmt.Errorf("the service answered %s", response.Status)
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		if err := json.NewDecoder(io.LimitReader(response.Body, maxGraphPageBytes)).Decode(&page); err != nil {
			return page, false, fmt.Errorf("read permissions: %w", err)
		}
		return page, false, nil
	case code == http.StatusForbidden, code == http.StatusNotFound:
		return page, false, &permissionsDeniedError{err}
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
	if identities := cmp.Or(p.GrantedToV2, p.GrantedTo); identities != nil {
		granted = append(slices.Clone(granted), *identities)
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
	for _, grantee := range granted {
		if reader, known := grantee.principal(); known {
			out = append(out, reader)
		}
	}
	return out
}

// principal identifies a grantee by its id in the directory if it has one, else by its id at the
// site.
func (g graphIdentities) principal() (source.Principal, bool) {
	for _, identity := range []struct {
		kind  string
		group bool
		value *graphIdentity
	}{{"user", false, g.User}, {"group", true, g.Group}, {"site-group", true, g.SiteGroup}, {"site-user", false, g.SiteUser}} {
		if identity.value != nil && identity.value.ID != "" {
			return source.Principal{ID: identity.kind + ":" + identity.value.ID, Group: identity.group, Name: identity.value.DisplayName, Email: identity.value.Email}, true
		}
	}
	return source.Principal{}, false
}
