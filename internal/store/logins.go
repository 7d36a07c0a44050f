package store

// This file makes the logins of programs, and checks that they own nothing. docs/security.md has
// the table of roles.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

const roleVectors role = "sluice_vectors"

// The roles that a program's login may become, and those for the login that builds indexes of
// vectors.
var (
	programRoles = []string{string(roleApp), string(roleAuth), string(roleSystem)}
	vectorRoles  = []string{string(roleVectors)}
)

// Settings, as error messages name them.
const (
	databaseSetting = "SLUICE_DATABASE_URL"
	ownerSetting    = "SLUICE_DATABASE_OWNER_URL"
	vectorSetting   = "SLUICE_DATABASE_VECTOR_URL"
)

// makeRolesIn are the migrations whose first statement creates roles that do not exist yet.
var makeRolesIn = []string{"00001_roles.sql", "00120_logins.sql"}

// MakeRoles creates the roles that tables refer to, in the server of the database at the URL owner,
// which need not have the tables yet.
func MakeRoles(ctx context.Context, owner string) error {
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		return &schema.FieldError{Field: ownerSetting, Problem: err.Error()}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to make roles: %w", Translate(err))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
	for _, name := range makeRolesIn {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return fmt.Errorf("read migration %s: %w", name, err)
		}
		_, statement, begun := strings.Cut(string(text), "-- +goose StatementBegin\n")
		statement, _, ended := strings.Cut(statement, "-- +goose StatementEnd")
		if !begun || !ended {
			return fmt.Errorf("migration %s has no statement that makes roles", name)
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make roles: %w", Translate(err))
		}
	}
	return nil
}

// powersSQL selects the first reason to refuse a login, null if there is none.
const powersSQL = `
SELECT CASE
    WHEN r.rolsuper THEN 'is a superuser, whom row-level security does not bind'
    WHEN r.rolbypassrls THEN 'may bypass row-level security'
    WHEN EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relname IN ('tenants', 'audit')
                 AND pg_has_role(r.oid, c.relowner, 'MEMBER')) THEN 'owns the tables, or may become the role that does'
    WHEN pg_has_role(r.oid, (SELECT datdba FROM pg_database WHERE datname = current_database()), 'MEMBER') THEN 'owns the database'
    WHEN r.rolcreaterole THEN 'may create roles'
    WHEN has_schema_privilege(r.oid, 'public', 'CREATE') THEN 'may create tables'
END
FROM pg_roles r WHERE r.rolname = `

// checkPowers refuses the login of conn if it could circumvent the separation of tenants.
func checkPowers(ctx context.Context, conn *pgx.Conn, setting string) error {
	var why *string
	if err := conn.QueryRow(ctx, powersSQL+`session_user`).Scan(&why); err != nil {
		return fmt.Errorf("look up the rights of the login: %w", err)
	}
	if why == nil {
		return nil
	}
	return refusedLogin(setting, conn.Config().User, *why)
}

func refusedLogin(setting, login, why string) error {
	return schema.Invalid(setting, "login %q %s; programs log in as a role that owns nothing: set %s to the owner's URL, %s to one of a "+
		"login of its own, and run sluice migrate, which makes that login (docs/database.md, Logins)", login, why, ownerSetting, databaseSetting)
}

// createLogin creates the login of url if it does not exist, and lets it become roles. conn is the
// owner's.
func createLogin(ctx context.Context, conn *pgx.Conn, setting, url string, roles []string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return &schema.FieldError{Field: setting, Problem: err.Error()}
	}
	login := config.User
	if login == conn.Config().User {
		return schema.Invalid(setting, "login %q is the owner's; give programs a login of their own, which sluice migrate makes", login)
	}
	name := pgx.Identifier{login}.Sanitize()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT to_regrole($1) IS NOT NULL`, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for login %q: %w", login, err)
	}
	if err := setPassword(ctx, conn, setting, name, config, exists); err != nil {
		return err
	}
	var why *string
	if err := conn.QueryRow(ctx, powersSQL+`$1`, login).Scan(&why); err != nil {
		return fmt.Errorf("look up the rights of login %q: %w", login, err)
	}
	if why != nil {
		return schema.Invalid(setting, "login %q %s; name one that owns nothing, or one that is not there: sluice migrate makes it", login, *why)
	}
	for _, r := range roles {
		var member bool
		if err := conn.QueryRow(ctx, `SELECT pg_has_role($1::name, $2::name, 'MEMBER')`, login, r).Scan(&member); err != nil {
			return fmt.Errorf("look up the roles of login %q: %w", login, err)
		}
		if member {
			continue
		}
		if _, err := conn.Exec(ctx, `GRANT `+r+` TO `+name); err != nil && !isDuplicate(err) {
			return byAdministrator(setting, err, `GRANT `+strings.Join(roles, ", ")+` TO `+name)
		}
	}
	return nil
}

// setPassword creates the login, or sets its password to the URL's if that does not work: changing
// the URL changes the password.
func setPassword(ctx context.Context, conn *pgx.Conn, setting, name string, config *pgx.ConnConfig, exists bool) error {
	how := `CREATE ROLE ` + name + ` LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION NOINHERIT PASSWORD `
	if exists {
		var pg *pgconn.PgError
		as, err := pgx.ConnectConfig(ctx, config)
		switch {
		case err == nil:
			return as.Close(ctx)
		case !errors.As(err, &pg) || pg.Code != "28P01":
			return fmt.Errorf("log in as %s (%s): %w", name, setting, Translate(err))
		}
		how = `ALTER ROLE ` + name + ` PASSWORD `
	}
	if config.Password == "" {
		return schema.Invalid(setting, "role %s is not there, and is not made without a password in the URL", name)
	}
	// These statements take no parameters.
	var quoted string
	if err := conn.QueryRow(ctx, `SELECT quote_literal($1)`, config.Password).Scan(&quoted); err != nil {
		return fmt.Errorf("quote a password: %w", err)
	}
	if _, err := conn.Exec(ctx, how+quoted); err != nil && !isDuplicate(err) {
		return byAdministrator(setting, err, how+`'...'`)
	}
	return nil
}

// isDuplicate reports whether a concurrent migration did the same: roles belong to the server, not
// to a database.
func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"42710", "23505", "0LP01", "XX000"}, pg.Code)
}

// byAdministrator returns an error with the SQL that a user who may create roles has to run.
func byAdministrator(setting string, err error, sql string) error {
	return fmt.Errorf("make the login of %s: the owner may not; have an administrator run %s; and repeat: %w", setting, sql, Translate(err))
}
