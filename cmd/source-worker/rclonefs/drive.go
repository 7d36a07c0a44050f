package rclonefs

// Permissions of files in Google Drive, from its API: one request for each hundred permissions of a
// file. rclone's own reading of permissions omits those that files of shared drives inherit.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/fserrors"
	"github.com/rclone/rclone/fs/fshttp"
	"github.com/rclone/rclone/lib/pacer"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	driveapi "google.golang.org/api/drive/v3"
	"google.golang.org/api/option"

	"github.com/sluice-rag/sluice/internal/source"
)

// driveMinInterval is the minimum time between two requests, after the first hundred.
const driveMinInterval = 20 * time.Millisecond

// drivePermissionReader reads permissions from Google Drive.
type drivePermissionReader struct {
	client *http.Client
	api    *driveapi.Service
	pacer  *fs.Pacer
}

// newDrivePermissionReader uses the same credentials and connection settings as rclone's backend.
func newDrivePermissionReader(c *connector, v values) (permissionReader, error) {
	r := &drivePermissionReader{client: fshttp.NewClient(c.baseCtx), pacer: fs.NewPacer(c.baseCtx, pacer.NewGoogleDrive(pacer.MinSleep(driveMinInterval)))}
	ctx := context.WithValue(c.baseCtx, oauth2.HTTPClient, r.client)
	var tokens oauth2.TokenSource
	if account := v["service_account"]; account != "" {
		config, err := google.JWTConfigFromJSON([]byte(account), driveapi.DriveReadonlyScope)
		if err != nil {
			return nil, &source.FieldError{Field: "service_account", Reason: err.Error()}
		}
		config.Subject = v["impersonate"]
		tokens = config.TokenSource(ctx)
	} else {
		var token oauth2.Token
		if err := json.Unmarshal([]byte(v["token"]), &token); err != nil {
			return nil, &source.FieldError{Field: "token", Reason: "it is not a token"}
		}
		config := oauth2.Config{ClientID: v["client_id"], ClientSecret: v["client_secret"], Endpoint: google.Endpoint}
		tokens = config.TokenSource(ctx, &token)
	}
	api, err := driveapi.NewService(ctx, option.WithHTTPClient(oauth2.NewClient(ctx, tokens)))
	if err != nil {
		return nil, fmt.Errorf("make a client of Google Drive: %w", err)
	}
	r.api = api
	return r, nil
}

func (r *drivePermissionReader) close() { r.client.CloseIdleConnections() }

const driveFields = "nextPageToken,permissions(id,type,role,view,displayName,emailAddress,domain,allowFileDiscovery,deleted,pendingOwner,expirationTime)"

// readers implements permissionReader.
func (r *drivePermissionReader) readers(ctx context.Context, id string) ([]source.Principal, error) {
	call := r.api.Permissions.List(id).SupportsAllDrives(true).PageSize(100).Fields(driveFields).Context(ctx)
	var out []source.Principal
	for {
		var page *driveapi.PermissionList
		err := r.pacer.Call(func() (bool, error) {
			var err error
			page, err = call.Do()
			reply := status(err)
			return ctx.Err() == nil && (reply.throttled || reply.code >= 500 || fserrors.ShouldRetry(err)), err
		})
		if reply := status(err); !reply.throttled && (reply.code == http.StatusForbidden || reply.code == http.StatusNotFound) {
			return nil, &permissionsDeniedError{err}
		}
		if err != nil {
			return nil, err
		}
		for _, p := range page.Permissions {
			if reader, ok := driveReader(p, time.Now()); ok && !slices.ContainsFunc(out, func(o source.Principal) bool { return o.ID == reader.ID }) {
				out = append(out, reader)
			}
		}
		if page.NextPageToken == "" {
			return out, nil
		}
		call.PageToken(page.NextPageToken)
	}
}

// driveRoles are the roles that may read.
var driveRoles = []string{"owner", "organizer", "fileOrganizer", "writer", "commenter", "reader"}

// driveReader returns whom a permission allows to read. A permission's id identifies its grantee in
// all of Drive.
func driveReader(p *driveapi.Permission, now time.Time) (source.Principal, bool) {
	// A permission for a view applies to something other than the file.
	if p.Deleted || p.PendingOwner || p.View != "" || !slices.Contains(driveRoles, p.Role) || p.Id == "" {
		return source.Principal{}, false
	}
	if p.ExpirationTime != "" {
		if ends, err := time.Parse(time.RFC3339, p.ExpirationTime); err != nil || !now.Before(ends) {
			return source.Principal{}, false
		}
	}
	out := source.Principal{ID: p.Type + ":" + p.Id, Group: p.Type != "user", Name: p.DisplayName, Email: p.EmailAddress}
	switch p.Type {
	case "user", "group":
	case "domain":
		out.Name = "everybody at " + p.Domain
	case "anyone":
		out.ID, out.Name = "anyone", "everybody"
	default:
		return source.Principal{}, false
	}
	if (p.Type == "domain" || p.Type == "anyone") && !p.AllowFileDiscovery {
		out.ID, out.Name = out.ID+":link", out.Name+" who has the link"
	}
	return out, true
}
