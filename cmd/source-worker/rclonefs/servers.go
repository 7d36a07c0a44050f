package rclonefs

// Services that somebody runs at an address of their own.

import (
	"path"
	"strconv"
	"strings"

	_ "github.com/rclone/rclone/backend/s3"     // registers its backend
	_ "github.com/rclone/rclone/backend/sftp"   // registers its backend
	_ "github.com/rclone/rclone/backend/smb"    // registers its backend
	_ "github.com/rclone/rclone/backend/webdav" // registers its backend
	"golang.org/x/crypto/ssh"

	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

var webdav = &kind{
	name: "webdav", backend: "webdav", rootField: "path",
	summary: "A folder of a WebDAV server, as Nextcloud and ownCloud are.",
	fields: []source.Field{
		{Name: "url", Summary: "address of the server's WebDAV folder, such as https://cloud.example.org/remote.php/dav/files/USER", Required: true},
		{Name: "vendor", Summary: "type of the server; with nextcloud and owncloud, listings include hashes", Values: []string{"other", "nextcloud", "owncloud"}},
		{Name: "user", Summary: "name to sign in with"},
		{Name: "password", Summary: "password, or better one made for this application", Secret: true},
		{Name: "token", Summary: "bearer token, in place of user and password", Secret: true},
		pathField,
	},
	target: func(v values) (target, error) {
		endpoint, err := setting.HTTP("url", v["url"])
		if err != nil {
			return target{}, err
		}
		pass, err := obscurePassword("password", v["password"])
		if err != nil {
			return target{}, err
		}
		options := v.options("url", "vendor", "user")
		options["pass"], options["bearer_token"] = pass, v["token"]
		return target{options: options, root: withTrailingSlash(v.folder()), hosts: map[string]string{"url": endpoint.Hostname()}}, nil
	},
}

// withTrailingSlash adds a slash to a root, which says that it is a folder and saves the backend a
// request.
func withTrailingSlash(root string) string {
	if root == "" {
		return ""
	}
	return root + "/"
}

var s3 = &kind{
	name: "s3", backend: "s3", rootField: "bucket",
	summary: "A bucket of Amazon S3, or of another service with its API, such as MinIO or Ceph.",
	fields: []source.Field{
		{Name: "bucket", Summary: "name of the bucket", Required: true},
		{Name: "endpoint", Summary: "address of the service, such as https://s3.example.org; Amazon's when empty"},
		{Name: "region", Summary: "region of the bucket; us-east-1 when empty"},
		{Name: "access_key", Summary: "id of the access key; without one the bucket must be public"},
		{Name: "secret_key", Summary: "the secret access key", Secret: true},
		pathField,
	},
	target: func(v values) (target, error) {
		if (v["access_key"] == "") != (v["secret_key"] == "") {
			return target{}, &source.FieldError{Field: "secret_key", Reason: "access_key and secret_key are given together, or neither"}
		}
		if strings.Contains(v["bucket"], "/") {
			return target{}, &source.FieldError{Field: "bucket", Reason: "a bucket's name has no slash; the folder in it is path"}
		}
		options, hosts := v.options("region", "endpoint"), map[string]string{}
		options["provider"] = "AWS"
		if v["endpoint"] != "" {
			endpoint, err := setting.HTTP("endpoint", v["endpoint"])
			if err != nil {
				return target{}, err
			}
			options["provider"], hosts["endpoint"] = "Other", endpoint.Hostname()
		}
		if v["region"] == "" {
			options["region"] = "us-east-1"
		}
		options["access_key_id"], options["secret_access_key"] = v["access_key"], v["secret_key"]
		return target{options: options, root: withTrailingSlash(v.folder(v["bucket"])), hosts: hosts}, nil
	},
}

var sftp = &kind{
	name: "sftp", backend: "sftp", rootField: "path", tunnel: true,
	summary: "A folder of a server that is reached by SSH.",
	fields: []source.Field{
		{Name: "host", Summary: "name or address of the server", Required: true},
		{Name: "port", Summary: "its port; 22 when empty"},
		{Name: "host_key", Summary: "its public key, as `ssh-keyscan HOST` prints it behind the name: ssh-ed25519 AAAA...", Required: true},
		{Name: "user", Summary: "name to sign in with", Required: true},
		{Name: "password", Summary: "password; or private_key", Secret: true},
		{Name: "private_key", Summary: "private key in OpenSSH's or PEM form, without a passphrase", Secret: true},
		{Name: "path", Summary: "folder to read: from the user's own, or with a slash at the start from the server's root"},
	},
	target: func(v values) (target, error) {
		if (v["password"] == "") == (v["private_key"] == "") {
			return target{}, &source.FieldError{Field: "password", Reason: "either password or private_key is needed"}
		}
		if _, err := setting.Number("port", v["port"], 1, 65535, 22); err != nil {
			return target{}, err
		}
		key := strings.TrimSpace(v["host_key"])
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil || strings.Contains(key, ",") {
			return target{}, &source.FieldError{Field: "host_key", Reason: "it is not a public key such as ssh-ed25519 AAAA..."}
		}
		pass, err := obscurePassword("password", v["password"])
		if err != nil {
			return target{}, err
		}
		options := v.options("host", "port", "user")
		options["pass"], options["host_keys"] = pass, strings.Join(strings.Fields(key)[:2], " ")
		options["shell_type"], options["disable_hashcheck"] = "none", "true" // do not run commands there
		options["skip_links"] = "true"                                       // a link may lead anywhere, and in circles
		if key := v["private_key"]; key != "" {
			if _, err := ssh.ParsePrivateKey([]byte(key)); err != nil {
				return target{}, &source.FieldError{Field: "private_key", Reason: err.Error()}
			}
			quoted := strconv.Quote(key)
			options["key_pem"] = quoted[1 : len(quoted)-1]
		}
		return target{options: options, root: sftpRoot(v["path"]), hosts: map[string]string{"host": v["host"]}}, nil
	},
}

// sftpRoot keeps the slash at the start, which is significant for SFTP.
func sftpRoot(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}

var smb = &kind{
	name: "smb", backend: "smb", rootField: "share",
	summary: "A share of a Windows or Samba server.",
	fields: []source.Field{
		{Name: "host", Summary: "name or address of the server", Required: true},
		{Name: "port", Summary: "its port; 445 when empty"},
		{Name: "share", Summary: "name of the share", Required: true},
		{Name: "user", Summary: "name to sign in with", Required: true},
		{Name: "password", Summary: "password", Secret: true},
		{Name: "domain", Summary: "domain of the user; WORKGROUP when empty"},
		pathField,
	},
	target: func(v values) (target, error) {
		if _, err := setting.Number("port", v["port"], 1, 65535, 445); err != nil {
			return target{}, err
		}
		if strings.ContainsAny(v["share"], `/\`) {
			return target{}, &source.FieldError{Field: "share", Reason: "a share's name has no slash; the folder in it is path"}
		}
		pass, err := obscurePassword("password", v["password"])
		if err != nil {
			return target{}, err
		}
		options := v.options("host", "port", "user", "domain")
		options["pass"] = pass
		return target{options: options, root: v.folder(v["share"]), hosts: map[string]string{"host": v["host"]}}, nil
	},
}
