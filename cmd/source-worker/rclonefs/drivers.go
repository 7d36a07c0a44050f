package rclonefs

import (
	"github.com/sluice-rag/sluice/cmd/source-worker/secret"
	"github.com/sluice-rag/sluice/internal/source"
)

// Drivers returns the drivers that use rclone's backends.
func Drivers() []source.Driver {
	var out []source.Driver
	for _, k := range []*kind{webdav, s3, sftp, smb, gcs, azureblob, onedrive, drive, dropbox, box} {
		out = append(out, secret.RedactErrors(k.driver()))
	}
	return out
}

// pathField is a field of all drivers.
var pathField = source.Field{Name: "path", Summary: "folder to read, without a slash at the start; everything when empty"}

// Fields of services that people sign in to with a browser (rclone authorize).
var (
	tokenField = source.Field{Name: "token", Summary: "what `rclone authorize` printed: a JSON object with access_token and refresh_token",
		Secret: true}
	clientField       = source.Field{Name: "client_id", Summary: "id of the application that the token was made with"}
	clientSecretField = source.Field{Name: "client_secret", Summary: "its secret", Secret: true}
	serviceField      = source.Field{Name: "service_account", Summary: "key of a Google service account, a JSON object", Secret: true}
)
