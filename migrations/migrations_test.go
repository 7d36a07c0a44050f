package migrations_test

// This file reads migrations for what programs of the version before could not
// work with, or wait for. The rules are in CONTRIBUTING.md, What migrations may do.

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/migrations"
)

// since is the migration from which on programs of the version before go on.
const since = 200

var (
	// breaking is what takes something away that a program of the version before may use.
	breaking = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|INDEX|COLUMN|VIEW|FUNCTION|PROCEDURE|SCHEMA|TYPE|POLICY|TRIGGER|ROLE|CONSTRAINT)\b|REVOKE\b|RENAME\b|SET\s+NOT\s+NULL|` +
		`ALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE\b|ALTER\s+TABLE[^;]*\bDROP\b|ADD\s+(CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY)\b)`)
	required = regexp.MustCompile(`(?i)\bADD\s+(COLUMN\s+)?\w+\s[^,;]*NOT\s+NULL[^,;]*`)
	raised   = regexp.MustCompile(`\bsluice_least_compatible\((\d+)\)`)
	harmless = regexp.MustCompile(`(?m)^-- breaks nothing: \S`)
	comment  = regexp.MustCompile(`--.*`)
	built    = regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+)`)
	public   = regexp.MustCompile(`(?i)REVOKE ALL ON (FUNCTION|PROCEDURE) [^;]* FROM PUBLIC`)
)

func TestMigrationsLetTheVersionBeforeGoOn(t *testing.T) {
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64]bool{}
	for _, e := range entries {
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[version] = true
	}
	for _, e := range entries {
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		text, err := fs.ReadFile(migrations.FS, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if version < since && !strings.Contains(string(text), "sluice_least_compatible") {
			continue
		}
		if problem := check(version, string(text), all); problem != "" {
			t.Errorf("%s %s", e.Name(), problem)
		}
	}
}

// check reads one migration of all, and returns what is wrong with it.
func check(version int64, text string, all map[int64]bool) string {
	up, _, _ := strings.Cut(text, "-- +goose Down")
	code := public.ReplaceAllString(comment.ReplaceAllString(up, ""), "")
	for _, again := range built.FindAllStringSubmatch(code, -1) { // the index was left half built
		code = strings.Replace(code, "DROP INDEX CONCURRENTLY IF EXISTS "+again[1]+";", "", 1)
	}
	said := raised.FindStringSubmatch(code)
	if version == since {
		said = nil // it makes the function
	}
	if said != nil && version < since {
		return "comes before the function sluice_least_compatible; give it a higher number"
	}
	if said != nil {
		if least, err := strconv.ParseInt(said[1], 10, 64); err != nil || !all[least] || least > version {
			return "names migration " + said[1] + ", which is none before it"
		}
	}
	found := breaking.FindString(code)
	for _, c := range required.FindAllString(code, -1) {
		if !strings.Contains(strings.ToUpper(c), "DEFAULT") {
			found = c
		}
	}
	if found != "" && said == nil && !harmless.MatchString(up) {
		return fmt.Sprintf("may break programs of the version before (%s): a release after programs do without it, say SELECT sluice_least_compatible(N); with a migration "+
			"of that release, or why it doesn't break them in a line -- breaks nothing: why", strings.Join(strings.Fields(found), " "))
	}
	if strings.Contains(up, "-- +goose NO TRANSACTION") {
		for statement := range strings.SplitSeq(code, ";") {
			statement = strings.TrimSpace(statement)
			if statement != "" && !strings.Contains(statement, "CONCURRENTLY") && !strings.HasPrefix(statement, "CALL sluice_backfill(") {
				return "has a statement outside of a transaction that may wait for ever, with everybody else behind it; give it a migration of its own: " + statement
			}
		}
	}
	return ""
}

func TestMigrationsThatBreakAreSeen(t *testing.T) {
	all := map[int64]bool{150: true, 290: true, 300: true, 310: true}
	for _, c := range []struct{ up, says string }{
		{"ALTER TABLE versions ADD a int;", ""},
		{"ALTER TABLE versions ADD a int NOT NULL DEFAULT 0, ADD b text;", ""},
		{"ALTER TABLE versions ADD a numeric NOT NULL;", "may break"},
		{"ALTER TABLE versions\n    DROP a;", "may break"},
		{"ALTER TABLE versions ALTER a SET NOT NULL;", "may break"},
		{"ALTER TABLE versions ALTER COLUMN a TYPE bigint;", "may break"},
		{"ALTER TABLE versions RENAME a TO b;", "may break"},
		{"DROP TABLE versions; -- DROP TABLE", "may break"},
		{"-- once DROP TABLE\nCREATE TABLE x ();", ""},
		{"REVOKE ALL ON FUNCTION f(int) FROM PUBLIC;", ""},
		{"REVOKE SELECT ON versions FROM sluice_app;", "may break"},
		{"-- breaks nothing: it never had a row\nDROP TABLE versions;", ""},
		{"-- breaks nothing:\nDROP TABLE versions;", "may break"},
		{"DROP TABLE versions;\nSELECT sluice_least_compatible(290);", ""},
		{"DROP TABLE versions;\nSELECT sluice_least_compatible(300);", ""}, // old programs have to be stopped
		{"DROP TABLE versions;\nSELECT sluice_least_compatible(299);", "names migration 299"},
		{"DROP TABLE versions;\nSELECT sluice_least_compatible(310);", "names migration 310"},
		{"DROP TABLE versions;\n-- SELECT sluice_least_compatible(300);", "may break"},
		{"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS i;\nCREATE INDEX CONCURRENTLY i ON t (a);", ""},
		{"-- +goose NO TRANSACTION\nCALL sluice_backfill('t', 'a = 1', 'a IS NULL');", ""},
		{"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS j;\nCREATE INDEX CONCURRENTLY i ON t (a);", "may break"}, // ON CONFLICT may need it
		{"DROP INDEX i;", "may break"},
		{"-- +goose NO TRANSACTION\n-- breaks nothing: nobody needs it\nDROP INDEX IF EXISTS i;", "outside of a transaction"},
	} {
		problem := check(300, c.up+"\n\n-- +goose Down\nDROP TABLE y;", all)
		if c.says == "" && problem != "" || c.says != "" && !strings.Contains(problem, c.says) {
			t.Errorf("%s\n\t%q, want %q", c.up, problem, c.says)
		}
	}
	if problem := check(150, "SELECT sluice_least_compatible(150);", all); !strings.Contains(problem, "higher number") {
		t.Error(problem)
	}
}
