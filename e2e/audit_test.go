package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// auditFile returns the file to which a server with this data directory sends its audit log.
func auditFile(data string) string { return filepath.Join(data, "audit.jsonl") }

// testAudit has a key sign in, search, ask, open and download a document, and be refused another
// one. It finds all of that in the audit log. Then it changes entries in the database, which only
// the database's owner can do.
func testAudit(t *testing.T, operator *server) {
	made := into[api.TenantCreated](t, operator.sluice(t, "tenants", "create", "audited", "--json").ok(t))
	admin := operator.withKey(made.APIKey)
	const collection, question = "audited", "Who built the observatory?"
	admin.sluice(t, "ingest", write(t, map[string]string{"open.txt": "The observatory on the hill was built by Maria Kwasnik in 1911."}), "-c", collection, "--wait").ok(t)
	admin.sluice(t, "ingest", write(t, map[string]string{"closed.txt": "The cellar holds the ledgers of the council."}), "-c", collection, "--label", "council", "--wait").ok(t)
	at := documents(t, admin, collection)
	open, closed := at["open.txt"].ID, at["closed.txt"].ID
	key := into[api.KeyCreated](t, admin.sluice(t, "keys", "create", "ann", "--scope", "query", "--json").ok(t))
	ann, agent := operator.withKey(key.APIKey), []string{"User-Agent", "observatory/1"}
	asked := api.Query{Collection: collection, Query: question}

	ann.withKey("").call(t, http.MethodPost, "/v1/session", map[string]string{"key": key.APIKey}, append(agent, "X-Sluice-Session", "1")...).want(t, http.StatusOK)
	ann.call(t, http.MethodPost, "/v1/search", asked, agent...).want(t, http.StatusOK)
	answer := as[schema.Answer](t, ann.call(t, http.MethodPost, "/v1/ask", asked, agent...).want(t, http.StatusOK))
	ann.call(t, http.MethodGet, "/v1/documents/"+open.String(), nil, agent...).want(t, http.StatusOK)
	ann.call(t, http.MethodGet, "/v1/documents/"+open.String()+"/content", nil, agent...).want(t, http.StatusOK)
	ann.call(t, http.MethodGet, "/v1/documents/"+closed.String()+"/content", nil, agent...).want(t, http.StatusNotFound)
	ann.call(t, http.MethodGet, "/v1/keys", nil, agent...).want(t, http.StatusForbidden)
	ann.withKey("slc_nobody").call(t, http.MethodPost, "/v1/search", asked, "User-Agent", "stranger/1").want(t, http.StatusUnauthorized)

	id := as[schema.Collection](t, admin.call(t, http.MethodGet, "/v1/collections/"+collection, nil).want(t, http.StatusOK)).ID.String()
	want := []string{
		"begin-session 200 - - - []",
		"search 200 " + id + " - " + question + " [open]",
		"ask 200 " + id + " " + answer.ID.String() + " " + question + " [open]",
		"get-document 200 - open - [open]",
		"get-content 200 - open - [open]",
		"get-content 404 - closed - []",
		"list-keys 403 - - - []",
	}
	names := strings.NewReplacer(open.String(), "open", closed.String(), "closed")
	var reads []schema.AuditRead
	waittest.Until(t, func() string {
		reads = into[[]schema.AuditRead](t, admin.sluice(t, "audit", "list", "--actor", "ann", "--json").ok(t))
		if len(reads) != len(want) {
			return fmt.Sprintf("%d reads of %d are in the audit log", len(reads), len(want))
		}
		return ""
	})
	slices.Reverse(reads) // oldest first
	for i, r := range reads {
		orDash := func(text string) string { return names.Replace(map[bool]string{true: "-", false: text}[text == ""]) }
		got := fmt.Sprintf("%s %d %s %s %s %s", r.Action, r.Status, orDash(r.Collection), orDash(r.Target), orDash(r.Query), names.Replace(fmt.Sprint(r.Documents)))
		if got != want[i] {
			t.Errorf("entry %d is\n%s\nwant\n%s", i, got, want[i])
		}
		if r.Key == nil || *r.Key != key.ID || r.KeyName != "ann" || r.Agent != "observatory/1" || r.Address != "127.0.0.1" || r.Trace == "" {
			t.Errorf("entry %d does not say who it was, or from where: %+v", i, r)
		}
	}
	admin.sluice(t, "audit", "--actor", "ann", "--action", "search").ok(t).has(t, question, "127.0.0.1", "200")
	if got := into[[]schema.AuditRead](t, admin.sluice(t, "audit", "list", "--document", closed.String(), "--actor", "ann", "--json").ok(t)); len(got) != 1 || got[0].Status != http.StatusNotFound {
		t.Errorf("about the closed document: %+v", got)
	}
	ann.sluice(t, "audit").fails(t, "admin")

	// Only operators see requests with an unknown key.
	admin.sluice(t, "audit", "--unknown").fails(t, "operator")
	waittest.Until(t, func() string {
		for _, r := range into[[]schema.AuditRead](t, operator.sluice(t, "audit", "--unknown", "--action", "search", "--json").ok(t)) {
			if r.Agent == "stranger/1" && r.Status == http.StatusUnauthorized && r.Key == nil {
				return ""
			}
		}
		return "the wrong key is not in the audit log"
	})

	// The chain is intact, and the export contains all entries.
	admin.sluice(t, "audit", "verify").ok(t).has(t, "is intact")
	admin.sluice(t, "audit", "verify", "--chain", "changes").ok(t).has(t, "is intact")
	admin.sluice(t, "audit", "--chain", "changes").ok(t).has(t, "key.create", "documents.upload")
	file := filepath.Join(t.TempDir(), "reads.jsonl")
	admin.sluice(t, "audit", "export", "-o", file).ok(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := int64(0) // the number of the search's entry
	for n, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var l schema.AuditLine
		if err := json.Unmarshal(line, &l); err != nil || l.Number != int64(n+1) || l.Read == nil || len(l.Hash) != 64 {
			t.Fatalf("line %d of the export is %s (%v)", n+1, line, err)
		}
		if l.Read.ID == reads[1].ID {
			first = l.Number
		}
	}
	if first == 0 {
		t.Fatalf("the export lacks the search: %s", data)
	}

	waittest.Until(t, func() string {
		all, err := os.ReadFile(auditFile(operator.data))
		if err != nil {
			return err.Error()
		}
		for line := range bytes.Lines(data) {
			if !bytes.Contains(all, line) {
				return fmt.Sprintf("the file that the log is sent to lacks %s", line)
			}
		}
		return ""
	})

	// The database's owner changes two entries; verify names the first.
	db := connect(t, operator.superuserURL(t))
	defer func() { _ = db.Close(t.Context()) }()
	for _, sql := range []string{
		"SET session_replication_role = replica", // disables the triggers
		fmt.Sprintf("UPDATE audit_reads SET documents = '{}' WHERE tenant_id = '%s' AND number IN (%d, %d)", made.ID, first, first+1),
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	admin.sluice(t, "audit", "verify").fails(t, fmt.Sprintf("broken at entry %d", first), "changed")
	if v := into[schema.AuditVerdict](t, admin.sluice(t, "audit", "verify", "--json")); v.Break == nil || v.Break.Number != first || v.Entries != first-1 {
		t.Errorf("verify says %+v", v)
	}
}
