package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testReceipts verifies answers from files of three formats, with the server and offline, and
// refuses changed files.
func testReceipts(t *testing.T, s *server) {
	examples := filepath.Join(s.repository, "examples", "documents")
	files := map[string]string{}
	for _, of := range []string{"manuals/kt-90-quick-guide.pdf", "it/runbook-erp-restore.md", "tables/price-list-2025-07.csv"} {
		data, err := os.ReadFile(filepath.Join(examples, of))
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(of)] = string(data)
	}
	in := write(t, files)
	s.sluice(t, "ingest", in, "-c", "receipts", "--wait").ok(t)
	away := s.withKey("")
	away.url = "" // the server is not used
	quoted := map[string]string{}
	for question, want := range map[string]string{
		"Which part number does the dry-running monitor of the KT-90 have?":             "kt-90-quick-guide.pdf",
		"How long did a full restore of the ERP database take in the last test?":        "runbook-erp-restore.md",
		"What is the price of one electronic KD-40 dosing pump with a PVDF liquid end?": "price-list-2025-07.csv",
	} {
		a := into[schema.Answer](t, s.sluice(t, "ask", question, "-c", "receipts", "--risk", "1", "--json").ok(t))
		if len(a.Citations) == 0 || a.Citations[0].Document != want {
			t.Fatalf("%q is answered by %+v", question, a)
		}
		saved := filepath.Join(t.TempDir(), "saved")
		s.sluice(t, "verify", a.ID.String(), "--save", saved).ok(t).has(t, "The signature is proved", "citations are proved", "model pack sluice-default", want)
		receipt, keys := filepath.Join(saved, "receipt.json"), filepath.Join(saved, "keys.txt")
		offline := func(files string) result {
			return away.sluice(t, "verify", "--receipt", receipt, "--key", keys, "--files", files, "--json")
		}
		type verified struct {
			Proved  bool
			Receipt struct{ Plan, Pack struct{ SHA256 string } }
		}
		if v := into[verified](t, offline(saved).ok(t)); !v.Proved || len(v.Receipt.Plan.SHA256) != 64 || len(v.Receipt.Pack.SHA256) != 64 {
			t.Errorf("%q: %+v", question, v)
		}
		offline(in).ok(t).has(t, `"proved":true`) // the uploaded files, under their own names
		again := s.call(t, "GET", "/v1/questions/"+a.ID.String()+"/receipt", nil).want(t, 200)
		if kept, err := os.ReadFile(receipt); err != nil || string(again.body) != string(kept) {
			t.Errorf("the same answer has another receipt: %s, %v", again.body, err)
		}

		version := filepath.Join(saved, a.Citations[0].Span.Version.String())
		data, err := os.ReadFile(version)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(version, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := offline(saved); r.code != 1 || !strings.Contains(r.out, "was changed") {
			t.Errorf("%q with a changed file: %v", question, r)
		}
		put(t, saved, "receipt.json", strings.Replace(string(again.body), `"supported":`, `"supported": `, 1))
		offline(in).fails(t, "receipt is refused")
		put(t, saved, "receipt.json", string(again.body))
		quoted[want] = a.ID.String()
	}

	// A replaced version can be verified while it is stored. The new file is not the cited one.
	const runbook = "runbook-erp-restore.md"
	put(t, in, runbook, files[runbook]+"\nOne more line.\n")
	s.sluice(t, "ingest", in, "-c", "receipts", "--wait").ok(t)
	s.sluice(t, "verify", quoted[runbook]).ok(t).has(t, "citations are proved")
	saved := t.TempDir()
	s.sluice(t, "verify", quoted[runbook], "--save", saved).ok(t)
	r := away.sluice(t, "verify", "--receipt", filepath.Join(saved, "receipt.json"), "--key", filepath.Join(saved, "keys.txt"), "--files", in)
	if r.code != 1 || !strings.Contains(r.out, "no file in") {
		t.Errorf("verified from a newer version: %v", r)
	}
	put(t, saved, "keys.txt", strings.Repeat("A", 43)+"=\n")
	away.sluice(t, "verify", "--receipt", filepath.Join(saved, "receipt.json"), "--key", filepath.Join(saved, "keys.txt"), "--files", saved).fails(t, "refused", "trusted")
	away.sluice(t, "verify", "--receipt", filepath.Join(saved, "receipt.json")).fails(t, "--key", "--files")

	// Without permission to read the answer there is no receipt, and none for anybody after a cited
	// document was deleted.
	foreign := s.withKey(into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "receipts", "--json").ok(t)).APIKey)
	foreign.sluice(t, "verify", quoted[runbook]).fails(t, "not found")
	s.sluice(t, "documents", "delete", runbook, "-c", "receipts").ok(t)
	s.sluice(t, "verify", quoted[runbook]).fails(t, "may not see now")
}
