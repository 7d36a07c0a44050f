package e2e

// This file backs up an installation during ingestion, restores it into an empty installation, and
// moves its tenant into another one. All of them must answer the same questions in the same way.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// drilled are the questions that are asked before a backup and after it is restored.
type drilled struct {
	collection string
	questions  []string
}

// said is the answer to a question, without what differs between runs.
type said struct {
	Answer    string
	Citations []schema.Citation
	Found     []schema.Span
}

func (d drilled) ask(t *testing.T, s *server) []said {
	t.Helper()
	var all []said
	for _, q := range d.questions {
		a := ask(t, s, d.collection, q)
		one := said{Answer: a.Answer, Citations: a.Citations}
		for _, c := range search(t, s, d.collection, q) {
			one.Found = append(one.Found, c.Spans...)
		}
		all = append(all, one)
	}
	return all
}

// hashes returns the SHA-256 of the downloaded bytes of each document of a collection.
func hashes(t *testing.T, s *server, collection string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, d := range documents(t, s, collection) {
		if len(d.Labels) > 0 { // the key may not see it
			out[name] = d.SHA256
			continue
		}
		content := s.call(t, http.MethodGet, "/v1/documents/"+d.ID.String()+"/content", nil).want(t, http.StatusOK).body
		sum := sha256.Sum256(content)
		if out[name] = hex.EncodeToString(sum[:]); out[name] != d.SHA256 {
			t.Errorf("%s has the hash %s, and its bytes %s", name, d.SHA256, out[name])
		}
	}
	return out
}

func alike(t *testing.T, what string, before, after any) {
	t.Helper()
	a, errA := json.MarshalIndent(before, "", " ")
	b, errB := json.MarshalIndent(after, "", " ")
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%s were %s and are %s (%v %v)", what, a, b, errA, errB)
	}
}

func testDrill(t *testing.T, p programs) {
	s := p.up(t, localtest.Dir(t), impatient...)
	s.sluice(t, "ingest", write(t, map[string]string{
		"lighthouse.md": "# The lighthouse\n\nThe lamp of the lighthouse was lit in 1874. Its keeper was Odalric Fenn.\n",
		"harbour.txt":   "The harbour of Skerrow freezes over in January. The ferry to Lund is then drawn by oxen.",
	}), "-c", "drill", "--wait").ok(t)
	s.sluice(t, "ingest", write(t, map[string]string{"vault.txt": "The treasure of Skerrow lies under the third flagstone of the chapel."}),
		"-c", "drill", "--label", "vault", "--wait").ok(t)
	key := func(name, group string) string {
		return into[api.KeyCreated](t, s.sluice(t, "keys", "create", name, "--scope", "query", "--group", group, "--json").ok(t)).APIKey
	}
	reader, stranger := key("reader", "vault"), key("stranger", "canteen")
	asked := drilled{"drill", []string{"When was the lamp of the lighthouse lit?", "What draws the ferry to Lund?", "Where does the treasure of Skerrow lie?"}}
	before, strangers, originals := asked.ask(t, s.withKey(reader)), asked.ask(t, s.withKey(stranger)), hashes(t, s, "drill")

	// One document is being worked on while the backup is made.
	model := s.child(t, "gpu-segmenter")
	freeze(t, model)
	s.sluice(t, "ingest", write(t, map[string]string{"late.txt": "The bell of Skerrow weighs nine hundredweight."}), "-c", "flight").ok(t)
	awaitMiddle(t, s, "flight")
	dir := filepath.Join(t.TempDir(), "backup")
	made := s.sluice(t, "backup", dir, "--data", s.data, "--json")
	thaw(t, model)
	made.ok(t)
	s.sluice(t, "backup", "verify", dir).ok(t).has(t, "is complete", "4 documents")
	exported := filepath.Join(t.TempDir(), "export")
	s.sluice(t, "tenants", "export", "default", exported, "--data", s.data).ok(t).has(t, "4 documents")
	s.stop(t)

	data := localtest.Dir(t)
	restored := s.run(t, nil, "sluice", "restore", dir, "--data", data, "--json").ok(t)
	report := into[struct {
		Documents int64
		Files     struct{ Files int64 }
		Damaged   []string
	}](t, restored)
	if report.Documents != 4 || report.Files.Files != 4 || len(report.Damaged) != 0 {
		t.Errorf("restored %s", restored.out)
	}
	s.run(t, nil, "sluice", "restore", dir, "--data", data).fails(t, "is not empty", "CREATE DATABASE")
	back := p.up(t, data, impatient...)
	waittest.Until(t, func() string {
		if c := counts(t, back, "flight"); c[schema.StateReady] != 1 {
			return fmt.Sprintf("the document that was in flight: %v", c)
		}
		return ""
	})
	if found := search(t, back, "flight", "What does the bell weigh?"); len(found) == 0 || found[0].ExternalID != "late.txt" {
		t.Errorf("what was in flight is not found: %v", names(found))
	}
	alike(t, "answers", before, asked.ask(t, back.withKey(reader)))
	alike(t, "answers to who may not see a document", strangers, asked.ask(t, back.withKey(stranger)))
	alike(t, "original bytes", originals, hashes(t, back, "drill"))
	for _, a := range strangers {
		for _, c := range a.Citations {
			if c.Document == "vault.txt" {
				t.Error("the labelled document was not hidden before: nothing is proved")
			}
		}
	}
	if job := awaitJob(t, back, startJob(t, back, "drill", asked.questions[0])); job.State != schema.JobAnswered {
		t.Errorf("a job after the restore: %+v", job)
	}
	back.checkStored(t)
	back.stop(t)

	other := p.up(t, localtest.Dir(t), impatient...)
	other.sluice(t, "tenants", "import", exported, "--data", other.data).fails(t, "--name")
	other.sluice(t, "tenants", "import", exported, "--name", "moved", "--data", other.data).ok(t).has(t, "4 documents", "operator")
	alike(t, "answers where the tenant was moved to", before, asked.ask(t, other.withKey(reader)))
	alike(t, "answers there to who may not see a document", strangers, asked.ask(t, other.withKey(stranger)))
	if r := other.withKey(s.key).call(t, http.MethodGet, "/v1/tenants", nil); r.status != http.StatusUnauthorized {
		t.Errorf("the key of an operator of the other installation: %d %s", r.status, r.body)
	}
	other.stop(t)

	// One byte of the backup is changed.
	files, err := filepath.Glob(filepath.Join(dir, "database", "*.dat*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the dump: %v %v", files, err)
	}
	damaged := files[len(files)/2]
	content, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(damaged, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, nil, "sluice", "restore", dir, "--data", localtest.Dir(t)).fails(t, "damaged", filepath.Base(damaged))
	s.run(t, nil, "sluice", "backup", "verify", dir).fails(t, "damaged", filepath.Base(damaged))
}
