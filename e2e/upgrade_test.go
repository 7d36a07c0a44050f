//go:build upgrade

package e2e

// This file is `make upgrade`: the programs of the previous version and of this version work side
// by side on the newer database.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

var workers = []string{"gpu-segmenter", "llm-gateway", "ingest-worker", "query-worker"}

// The two versions.
const (
	before = "before"
	now    = "now"
)

func TestUpgrade(t *testing.T) {
	versions := map[string]programs{before: buildPrevious(t), now: build(t)}
	t.Run("ReleasedFilesStay", func(t *testing.T) { filesStay(t, versions[before].repository) })

	databaseURL := localtest.Database(t)
	nats, temporal := localtest.NATS(t), localtest.Temporal(t)
	u := &upgrade{versions: versions, env: append([]string{
		"SLUICE_DATABASE_URL=" + localtest.ProgramURL(t, databaseURL), "SLUICE_DATABASE_OWNER_URL=" + databaseURL,
		"SLUICE_DATABASE_VECTOR_URL=" + localtest.VectorURL(t, databaseURL), "SLUICE_NATS_URL=" + nats.URL(),
		"SLUICE_TEMPORAL_ADDRESS=" + temporal.Address, "SLUICE_TEMPORAL_NAMESPACE=" + temporal.Namespace,
		"SLUICE_HEALTH_LISTEN=off", "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_LOG_LEVEL=info", "SLUICE_LOG_FORMAT=json",
	}, impatient...), running: map[string][]*process{}}

	migrated := versions[before].run(t, u.env, "sluice", "migrate", "--bootstrap", "default", "--json").ok(t)
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(migrated.out), &made); err != nil || made.APIKey == "" {
		t.Fatalf("no key: %v", migrated)
	}
	u.key = made.APIKey
	apis := map[string]*server{before: u.serve(t, before)}
	u.work(t, before)
	u.use(t, "old", apis[before])

	// The database is migrated, and gets further changes, while programs of the previous version
	// work.
	versions[now].run(t, u.env, "sluice", "migrate").ok(t)
	owner, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // a test's
	for _, sql := range []string{
		`ALTER TABLE documents ADD later int NOT NULL DEFAULT 0`, `ALTER TABLE versions ADD later text`, `ALTER TABLE questions ADD later text`,
		fmt.Sprintf(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)`, further),
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	u.use(t, "migrated-under-them", apis[before])
	versions[before].run(t, u.env, "sluice", "migrate").ok(t) // there is nothing to migrate

	// Restarted programs of the previous version still work, also next to newer ones.
	apis[before].process.stop(t, syscall.SIGTERM)
	u.rest(t, before)
	apis[before] = u.serve(t, before)
	u.work(t, before)
	u.use(t, "started-again", apis[before])
	apis[now] = u.serve(t, now)
	u.use(t, "new-api-old-workers", apis[now])
	u.work(t, now)
	u.use(t, "all-workers-old-api", apis[before])
	u.use(t, "all-workers-new-api", apis[now])
	u.rest(t, before)
	u.use(t, "old-api-new-workers", apis[before])
	u.use(t, "new", apis[now])

	// Each version finds what the other wrote.
	for version, api := range apis {
		for _, name := range u.written {
			u.find(t, version+" api", api, name)
		}
	}
	checkStored(t, superuser(t, databaseURL))

	// Back to the previous version.
	u.work(t, before)
	u.rest(t, now)
	u.use(t, "back", apis[before])
	for _, name := range u.written {
		u.find(t, "back", apis[before], name)
	}

	// After a migration that is incompatible with both versions, their programs refuse to start.
	if _, err := owner.Exec(t.Context(), `SELECT sluice_least_compatible($1)`, further); err != nil {
		t.Fatal(err)
	}
	for version, p := range versions {
		for _, name := range append([]string{"sluice serve"}, "ingest-worker", "query-worker") {
			args := strings.Fields(name)
			t.Run(version+"/"+name, func(t *testing.T) {
				p.run(t, u.env, args[0], args[1:]...).fails(t, fmt.Sprint("migration ", further), "upgrade this program")
			})
		}
	}
}

// further is the number of a migration that neither version has.
const further = 99999

type upgrade struct {
	versions map[string]programs
	env      []string
	key      string
	running  map[string][]*process // workers, by version
	written  []string
}

func (u *upgrade) serve(t *testing.T, version string) *server {
	t.Helper()
	p := u.versions[version]
	s := &server{programs: p, process: p.start(t, u.env, "sluice", "serve"), key: u.key}
	s.url = servedAt(t, s.process)
	return s
}

// work starts a version's workers.
func (u *upgrade) work(t *testing.T, version string) {
	t.Helper()
	for _, name := range workers {
		u.running[version] = append(u.running[version], u.versions[version].start(t, u.env, name))
	}
	for _, r := range u.running[version] {
		waittest.Until(t, func() string {
			select {
			case <-r.done:
				t.Fatalf("%s of the version %s ended: %v\n%s", r.name, version, r.err, r.log.tail())
			default:
			}
			if !strings.Contains(r.log.tail(), " is ready") {
				return r.name + " of the version " + version + " is not ready"
			}
			return ""
		})
	}
}

// rest stops a version's workers.
func (u *upgrade) rest(t *testing.T, version string) {
	t.Helper()
	for _, r := range slices.Backward(u.running[version]) {
		r.stop(t, syscall.SIGTERM)
	}
	u.running[version] = nil
}

// use ingests documents, searches them, and has a question answered directly and as a job, with the
// commands of the API's version. It sends several requests of each kind, so that workers of both
// versions get some if both run.
func (u *upgrade) use(t *testing.T, name string, s *server) {
	t.Helper()
	const documents = 12
	files := map[string]string{}
	for i := range documents {
		files[fmt.Sprintf("%s-%d.md", name, i)] = fmt.Sprintf("# Ferry %[1]s %[2]d\n\nThe ferry %[1]s %[2]d crosses the sound in %[3]d minutes. "+
			"It carries hay in summer and coal in winter.\n", name, i, 20+i)
	}
	result := into[ingested](t, s.sluice(t, "ingest", write(t, files), "-c", "ferries", "--wait", "--json").ok(t))
	if result.Ready != documents || result.Failed != 0 {
		t.Errorf("%s: %+v", name, result)
	}
	u.written = append(u.written, name)
	for range 4 {
		u.find(t, name, s, name)
	}
	question := "In how many minutes does the ferry " + name + " 3 cross the sound?"
	for range 2 {
		s.sluice(t, "ask", question, "-c", "ferries", "--json").ok(t).has(t, name)
	}
	if job := awaitJob(t, s, startJob(t, s, "ferries", question)); job.State != schema.JobAnswered {
		t.Errorf("%s: the job ended as %+v", name, job)
	}
	s.call(t, http.MethodGet, "/v1/collections/ferries", nil).want(t, http.StatusOK)
}

func (u *upgrade) find(t *testing.T, when string, s *server, name string) {
	t.Helper()
	found := names(search(t, s, "ferries", "In how many minutes does the ferry "+name+" 3 cross the sound?", "-k", "20"))
	if !slices.Contains(found, name+"-3.md") {
		t.Errorf("%s: the search for %s-3.md finds %v", when, name, found)
	}
}

// filesStay checks that released files are unchanged: migrations, which databases have applied, and
// histories of workflows, which may still run.
func filesStay(t *testing.T, old string) {
	for _, pattern := range []string{"migrations/*.sql", "workflows/testdata/*.json"} {
		released, err := fs.Glob(os.DirFS(old), pattern)
		if err != nil || len(released) == 0 {
			t.Fatalf("the version before has no %s: %v", pattern, err)
		}
		for _, name := range released {
			was, err := os.ReadFile(filepath.Join(old, name))
			if err != nil {
				t.Fatal(err)
			}
			is, err := os.ReadFile(filepath.Join("..", name))
			if err != nil || !bytes.Equal(was, is) {
				t.Errorf("%s was released and is not as it was: write a new one beside it (%v)", name, err)
			}
		}
	}
}
