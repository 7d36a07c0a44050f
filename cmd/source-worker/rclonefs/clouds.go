package rclonefs

// Cloud services. They were not available for tests.

import (
	"encoding/json"
	"regexp"

	_ "github.com/rclone/rclone/backend/azureblob"          // registers its backend
	_ "github.com/rclone/rclone/backend/box"                // registers its backend
	_ "github.com/rclone/rclone/backend/drive"              // registers its backend
	_ "github.com/rclone/rclone/backend/dropbox"            // registers its backend
	_ "github.com/rclone/rclone/backend/googlecloudstorage" // registers its backend
	_ "github.com/rclone/rclone/backend/onedrive"           // registers its backend

	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

var gcs = &kind{
	name: "gcs", backend: "google cloud storage", rootField: "bucket",
	summary: "A bucket of Google Cloud Storage.",
	fields: []source.Field{
		{Name: "bucket", Summary: "name of the bucket", Required: true}, serviceField,
		{Name: "endpoint", Summary: "address of another service with its API; Google's when empty"}, pathField,
	},
	target: func(v values) (target, error) {
		options, hosts := v.options("endpoint"), map[string]string{}
		if v["endpoint"] != "" {
			endpoint, err := setting.HTTP("endpoint", v["endpoint"])
			if err != nil {
				return target{}, err
			}
			hosts["endpoint"] = endpoint.Hostname()
		}
		options["service_account_credentials"], options["bucket_policy_only"] = v["service_account"], "true"
		if v["service_account"] == "" {
			options["anonymous"] = "true"
		} else if err := object("service_account", v["service_account"], "client_email", "private_key"); err != nil {
			return target{}, err
		}
		return target{options: options, root: withTrailingSlash(v.folder(v["bucket"])), hosts: hosts}, nil
	},
}

var azureAccount = regexp.MustCompile(`^[a-z0-9]{3,24}$`)

var azureblob = &kind{
	name: "azureblob", backend: "azureblob", rootField: "container", unguarded: true,
	summary: "A container of Azure Blob Storage.",
	fields: []source.Field{
		{Name: "account", Summary: "name of the storage account", Required: true},
		{Name: "key", Summary: "one of its keys", Required: true, Secret: true},
		{Name: "container", Summary: "name of the container", Required: true},
		{Name: "endpoint", Summary: "address of another service with its API; Azure's when empty"}, pathField,
	},
	target: func(v values) (target, error) {
		if !azureAccount.MatchString(v["account"]) {
			return target{}, &source.FieldError{Field: "account", Reason: "an account's name has 3 to 24 lower-case letters and digits"}
		}
		options, hosts := v.options("account", "key", "endpoint"), map[string]string{}
		if v["endpoint"] != "" {
			endpoint, err := setting.HTTP("endpoint", v["endpoint"])
			if err != nil {
				return target{}, err
			}
			hosts["endpoint"] = endpoint.Hostname()
		}
		return target{options: options, root: withTrailingSlash(v.folder(v["container"])), hosts: hosts}, nil
	},
}

var onedrive = &kind{
	name: "onedrive", backend: "onedrive", rootField: "path", inexactSizes: true,
	summary: "A drive of OneDrive, or a document library of SharePoint.",
	fields: []source.Field{
		{Name: "drive_id", Summary: "id of the drive or document library", Required: true},
		{Name: "drive_type", Summary: "type of the drive", Required: true, Values: []string{"personal", "business", "documentLibrary"}},
		{Name: "tenant", Summary: "id of the directory; with client_id and client_secret, in place of token"},
		clientField, clientSecretField, tokenField, pathField,
		{Name: source.PermissionsSetting, Values: []string{source.IgnorePermissions, source.FollowPermissions},
			Summary: "whether the service's permissions decide who sees the documents; cannot be changed later"},
	},
	newPermissionReader: newGraphPermissionReader,
	target: func(v values) (target, error) {
		if v[source.PermissionsSetting] == source.FollowPermissions && (v["client_id"] == "" || v["client_secret"] == "") {
			return target{}, &source.FieldError{Field: "client_id", Reason: "required with permissions=follow, together with client_secret: " +
				"those of the application that the token was made with, or of an application of the directory in tenant"}
		}
		options := v.options("drive_id", "drive_type", "client_id", "client_secret")
		if v["tenant"] == "" {
			if err := token(v, options); err != nil {
				return target{}, err
			}
			return target{options: options, root: v.folder()}, nil
		}
		if v["client_id"] == "" || v["client_secret"] == "" {
			return target{}, &source.FieldError{Field: "client_secret", Reason: "an application of a directory needs client_id and client_secret"}
		}
		options["client_credentials"], options["tenant"] = "true", v["tenant"]
		return target{options: options, root: v.folder()}, nil
	},
}

var drive = &kind{
	name: "drive", backend: "drive", rootField: "path",
	summary: "A Google Drive, its own documents as Office files.",
	fields: []source.Field{
		serviceField, tokenField, clientField, clientSecretField,
		{Name: "folder_id", Summary: "id of the folder to read, from its address; the whole drive when empty"},
		{Name: "team_drive", Summary: "id of a shared drive"},
		{Name: "impersonate", Summary: "user whose drive the service account reads"}, pathField,
		{Name: source.PermissionsSetting, Values: []string{source.IgnorePermissions, source.FollowPermissions},
			Summary: "whether Drive's permissions decide who sees the documents; cannot be changed later"},
	},
	newPermissionReader: newDrivePermissionReader,
	target: func(v values) (target, error) {
		options := v.options("client_id", "client_secret", "team_drive", "impersonate")
		options["scope"], options["root_folder_id"] = "drive.readonly", v["folder_id"]
		options["skip_dangling_shortcuts"] = "true"
		if v[source.PermissionsSetting] == source.FollowPermissions {
			// Those who may see a shortcut need not be those who may see its target.
			options["skip_shortcuts"] = "true"
			if v["service_account"] == "" && (v["client_id"] == "" || v["client_secret"] == "") {
				return target{}, &source.FieldError{Field: "client_id", Reason: "required with permissions=follow, together with client_secret: " +
					"those of the application that the token was made with; or a service account"}
			}
		}
		if v["service_account"] == "" {
			if err := token(v, options); err != nil {
				return target{}, err
			}
		} else if err := object("service_account", v["service_account"], "client_email", "private_key"); err != nil {
			return target{}, err
		}
		options["service_account_credentials"] = v["service_account"]
		return target{options: options, root: v.folder()}, nil
	},
}

var dropbox = &kind{
	name: "dropbox", backend: "dropbox", rootField: "path",
	summary: "A Dropbox.",
	fields:  []source.Field{required(tokenField), clientField, clientSecretField, pathField},
	target: func(v values) (target, error) {
		options := v.options("client_id", "client_secret")
		options["batch_mode"] = "off" // for uploads; there are none
		if err := token(v, options); err != nil {
			return target{}, err
		}
		return target{options: options, root: v.folder()}, nil
	},
}

var box = &kind{
	name: "box", backend: "box", rootField: "path", signsIn: true,
	summary: "A folder of Box, by an application that signs in as itself.",
	fields: []source.Field{
		{Name: "config", Summary: "settings of a Box application with JWT authentication, the JSON object that Box gives out", Required: true, Secret: true},
		{Name: "acts_for", Summary: "what the application acts for", Values: []string{"user", "enterprise"}},
		{Name: "folder_id", Summary: "id of the folder to read; the whole account when empty"}, pathField,
	},
	target: func(v values) (target, error) {
		if err := object("config", v["config"], "boxAppSettings"); err != nil {
			return target{}, err
		}
		options := map[string]string{"config_credentials": v["config"], "box_sub_type": "enterprise"}
		if v["folder_id"] != "" {
			options["root_folder_id"] = v["folder_id"]
		}
		if v["acts_for"] != "" {
			options["box_sub_type"] = v["acts_for"]
		}
		return target{options: options, root: v.folder()}, nil
	},
}

func required(f source.Field) source.Field {
	f.Required = true
	return f
}

// token checks the output of `rclone authorize` and adds it to the options.
func token(v values, options map[string]string) error {
	if v["token"] == "" {
		return &source.FieldError{Field: "token", Reason: "needed"}
	}
	options["token"] = v["token"]
	return object("token", v["token"], "access_token")
}

// object checks that a value is a JSON object with these members.
func object(field, value string, required ...string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &members); err != nil {
		return &source.FieldError{Field: field, Reason: "it is not a JSON object"}
	}
	for _, name := range required {
		if members[name] == nil {
			return &source.FieldError{Field: field, Reason: "the JSON object has no " + name}
		}
	}
	return nil
}
