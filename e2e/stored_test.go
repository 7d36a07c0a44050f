package e2e

// This file reads the database without row-level security.

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/schema"
)

// superuserURL returns the URL of the database that `sluice up` runs in its data directory, with
// the superuser.
func (s *server) superuserURL(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.data, "postgres")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	lines := strings.Split(read("cluster/postmaster.pid"), "\n")
	if len(lines) < 4 {
		t.Fatalf("postmaster.pid has %d lines", len(lines))
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(read("postgres.password"))),
		Host: net.JoinHostPort(local.Host, lines[3]), Path: "/" + local.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func (s *server) checkStored(t *testing.T) {
	t.Helper()
	checkStored(t, s.superuserURL(t))
}

// promises are queries that return no row if the stored data is correct. A rebuild leaves the old
// generation for a while, and creates the new one before it is live, so queries about passages
// include only the live generation. They leave out replaced versions, which are not searched.
var promises = map[string]string{
	"a section that its passages do not tile": `
SELECT s.version_id, s.ordinal, octet_length(s.body), sum(p.end_byte - p.start_byte)
FROM sections s JOIN collections c ON c.tenant_id = s.tenant_id AND c.id = s.collection_id
JOIN versions v ON v.tenant_id = s.tenant_id AND v.id = s.version_id
LEFT JOIN passages p ON p.tenant_id = s.tenant_id AND p.section_id = s.id AND p.generation = c.generation
GROUP BY s.tenant_id, s.id, v.retired_at, c.generation HAVING octet_length(s.body) IS DISTINCT FROM sum(p.end_byte - p.start_byte)
   AND NOT (v.retired_at IS NOT NULL AND c.generation > 1 AND count(p.id) = 0)`,
	"a passage that does not begin where the one before it ends": `
SELECT version_id, section_id, ordinal, previous, start_byte
FROM (SELECT *, lag(end_byte, 1, 0) OVER w AS previous, row_number() OVER w - 1 AS place FROM passages
      WINDOW w AS (PARTITION BY tenant_id, section_id, generation ORDER BY ordinal)) p
WHERE previous <> start_byte OR place <> ordinal`,
	"a passage of no section": `
SELECT p.version_id, p.id FROM passages p LEFT JOIN sections s ON s.tenant_id = p.tenant_id AND s.id = p.section_id AND s.version_id = p.version_id
WHERE s.id IS NULL`,
	"a version that is ready and has not the sections and passages it counts": `
SELECT v.id, v.section_count, s.n, v.passage_count, p.n FROM versions v
CROSS JOIN LATERAL (SELECT count(*) AS n FROM sections s WHERE s.tenant_id = v.tenant_id AND s.version_id = v.id) s
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM passages p JOIN collections c ON c.tenant_id = p.tenant_id AND c.id = p.collection_id
    WHERE p.tenant_id = v.tenant_id AND p.version_id = v.id AND p.generation = c.generation) p
WHERE v.state = 'ready' AND v.purged_at IS NULL AND (v.section_count <> s.n OR v.passage_count <> p.n OR p.n = 0)`,
	"a passage that has not exactly one vector": `
SELECT p.version_id, p.id, v.n FROM passages p
LEFT JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT passage_id FROM vectors_256 v WHERE v.tenant_id = p.tenant_id AND v.collection_id = p.collection_id AND v.passage_id = p.id
    UNION ALL SELECT passage_id FROM vectors_384 v WHERE v.tenant_id = p.tenant_id AND v.collection_id = p.collection_id AND v.passage_id = p.id
    UNION ALL SELECT passage_id FROM vectors_512 v WHERE v.tenant_id = p.tenant_id AND v.collection_id = p.collection_id AND v.passage_id = p.id
    UNION ALL SELECT passage_id FROM vectors_768 v WHERE v.tenant_id = p.tenant_id AND v.collection_id = p.collection_id AND v.passage_id = p.id
    UNION ALL SELECT passage_id FROM vectors_1024 v WHERE v.tenant_id = p.tenant_id AND v.collection_id = p.collection_id AND v.passage_id = p.id) x) v ON true
WHERE v.n <> 1`,
	"a document with two versions that are ready": `
SELECT document_id, count(*) FROM versions WHERE state = 'ready' GROUP BY tenant_id, document_id HAVING count(*) > 1`,
	"a document whose ready version is not the one that answers": `
SELECT d.id, d.live_version_id, v.id FROM documents d JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id
WHERE d.deleted_at IS NULL AND v.state = 'ready' AND v.id IS DISTINCT FROM d.live_version_id`,
	"a citation whose quote is not the text that it points at": `
SELECT c.question_id, c.quote FROM citations c JOIN sections s ON s.tenant_id = c.tenant_id AND s.id = c.section_id
WHERE substring(convert_to(s.body, 'UTF8') FROM c.start_byte + 1 FOR c.end_byte - c.start_byte) <> convert_to(c.quote, 'UTF8')`,
}

// checkStored checks that the stored data is complete, and stored once.
func checkStored(t *testing.T, databaseURL string) {
	t.Helper()
	db := connect(t, databaseURL)
	defer func() { _ = db.Close(t.Context()) }()
	for what, query := range promises {
		rows, err := db.Query(t.Context(), query)
		if err != nil {
			t.Fatalf("looking for %s: %v", what, err)
		}
		var found [][]any
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, values)
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("looking for %s: %v", what, err)
		}
		if len(found) > 0 {
			t.Errorf("there is %s, %d times, for example %v", what, len(found), found[0])
		}
	}
}

// stored returns the text of a span.
func stored(t *testing.T, db *pgx.Conn, s schema.Span) string {
	t.Helper()
	var body string
	var version uuid.UUID
	if err := db.QueryRow(t.Context(), `SELECT body, version_id FROM sections WHERE id = $1`, s.Section).Scan(&body, &version); err != nil {
		t.Fatalf("reading section %s: %v", s.Section, err)
	}
	if version != s.Version || s.Start < 0 || s.End <= s.Start || s.End > len(body) {
		t.Errorf("%+v points outside of its section, of version %s with %d bytes", s, version, len(body))
		return ""
	}
	return body[s.Start:s.End]
}
