// Package migrations holds the numbered SQL that makes the store. Migrations
// run as the owner of the database; everything else runs as one of three roles,
// none of which can bypass row-level security (see 00001_roles.sql).
package migrations

import "embed"

// FS holds the migrations in goose's format.
//
//go:embed *.sql
var FS embed.FS
