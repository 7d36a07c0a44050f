package e2e

// This file kills processes during ingestion, and deletes the data of NATS and Temporal.

import (
	"encoding/json"
	"fmt"
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

// crowd is how many documents are in progress when a process is killed.
const crowd = 120

// impatient are settings with short timeouts, so that the system soon takes over the work of killed
// processes.
var impatient = []string{"SLUICE_INGEST_LEASE=5s", "SLUICE_INGEST_REQUEUE=3s", "SLUICE_INGEST_RECONCILE=500ms", "SLUICE_INGEST_BATCH_SIZE=8", "SLUICE_QUESTION_LEASE=5s"}

func testCrash(t *testing.T, p programs) {
	data := localtest.Dir(t)
	// A start that is interrupted or killed does not prevent the next one.
	for _, end := range []func(*process){func(r *process) { r.stop(t, syscall.SIGINT) }, (*process).kill} {
		r := p.start(t, impatient, "sluice", "up", "--data", data, "--listen", "127.0.0.1:0", "--json")
		waittest.Until(t, func() string {
			entries, err := os.ReadDir(filepath.Join(data, "postgres"))
			if err == nil && len(entries) > 0 {
				return ""
			}
			select {
			case <-r.done:
				t.Fatalf("sluice up ended at its start: %v\n%s", r.err, r.log.tail())
			default:
			}
			return fmt.Sprintf("sluice up does not begin: %v", err)
		})
		end(r)
	}
	s := p.up(t, data, impatient...)
	t.Run("ModelServer", func(t *testing.T) {
		model := s.child(t, "gpu-segmenter")
		freeze(t, model)
		s.sluice(t, "ingest", writeCrowd(t, "model"), "-c", "model").ok(t)
		awaitMiddle(t, s, "model")
		if err := syscall.Kill(model, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, s, "model")
		s.checkStored(t)
	})
	for _, server := range []string{"postgres", "temporal-server"} {
		t.Run(server, func(t *testing.T) {
			pid := s.child(t, server)
			s.sluice(t, "ingest", writeCrowd(t, server), "-c", server).ok(t)
			awaitMiddle(t, s, server)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			awaitReady(t, s, server)
			s.checkStored(t)
		})
	}

	// A server that is stopped during ingestion continues after the next start.
	s.sluice(t, "ingest", writeCrowd(t, "stop"), "-c", "stop").ok(t)
	awaitMiddle(t, s, "stop")
	s.stop(t)
	s = p.up(t, data, impatient...)
	t.Run("Stop", func(t *testing.T) {
		awaitReady(t, s, "stop")
		s.checkStored(t)
	})

	// All processes are killed, and the data of NATS and Temporal is deleted, while some documents
	// are ready and others in progress.
	folder := writeCrowd(t, "all")
	s.sluice(t, "ingest", filepath.Join(folder, "all-00*.md"), "-c", "all", "--wait").ok(t)
	model := s.child(t, "gpu-segmenter")
	freeze(t, model)
	s.sluice(t, "ingest", folder, "-c", "all").ok(t)
	job := startJob(t, s, "model", "What is the number of parcel model-007?")
	awaitMiddle(t, s, "all")
	s.kill()
	if err := syscall.Kill(model, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nats", "temporal"} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	s = p.up(t, data, impatient...)
	t.Run("EverythingAndWipe", func(t *testing.T) {
		awaitReady(t, s, "all")
		s.checkStored(t)
		if again := into[ingested](t, s.sluice(t, "ingest", folder, "-c", "all", "--wait", "--json").ok(t)); again.Uploaded != 0 || again.Ready != crowd {
			t.Errorf("after the crash: %+v", again)
		}
		if job := awaitJob(t, s, job); job.State != schema.JobAnswered {
			t.Errorf("the job from before the crash ended as %+v", job)
		}
		checkCrowd(t, s, "all")
	})
	s.stop(t)
}

// writeCrowd writes documents of a few passages each.
func writeCrowd(t *testing.T, name string) string {
	t.Helper()
	files := map[string]string{}
	for i := range crowd {
		id := fmt.Sprintf("%s-%03d", name, i)
		var text strings.Builder
		fmt.Fprintf(&text, "# Parcel %s\n\nParcel %s has the number %d. It lies north of the canal.\n\n", id, id, 4000+i)
		for j := range 6 {
			fmt.Fprintf(&text, "## Field %d\n\nField %d of parcel %s was measured by surveyor %d. It grows barley in odd years and clover in even ones. "+
				"The drains were laid at a depth of %d centimetres. A hedge of hawthorn keeps the wind away.\n\n", j, j, id, i*7+j, 60+j)
		}
		files[id+".md"] = text.String()
	}
	return write(t, files)
}

// freeze stops the model server's process, so that documents stay in progress until it is killed or
// thawed.
func freeze(t *testing.T, model int) {
	t.Helper()
	if err := syscall.Kill(model, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func thaw(t *testing.T, model int) {
	t.Helper()
	if err := syscall.Kill(model, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// awaitMiddle waits until some documents of a collection are being processed. It also returns if
// all are done already, which can happen when the model server isn't frozen.
func awaitMiddle(t *testing.T, s *server, collection string) {
	t.Helper()
	waittest.Until(t, func() string {
		c := counts(t, s, collection)
		if c[schema.StateProcessing] == 0 && unfinished(c) > 0 {
			return fmt.Sprintf("nothing begins: %v", c)
		}
		t.Logf("%s in the middle: %v", collection, c)
		return ""
	})
}

func awaitReady(t *testing.T, s *server, collection string) {
	t.Helper()
	waittest.Until(t, func() string {
		r := s.call(t, http.MethodGet, "/v1/collections/"+collection, nil)
		if r.status == http.StatusServiceUnavailable { // the database is coming back
			return fmt.Sprintf("not serving: %s", r.body)
		}
		if c := as[schema.Collection](t, r.want(t, http.StatusOK)).Counts; c[schema.StateReady] != crowd {
			return fmt.Sprintf("not all of %d documents are ready: %v", crowd, c)
		}
		return ""
	})
	for name, d := range documents(t, s, collection) {
		if d.State != schema.StateReady || !d.Live || d.Version != 1 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// checkCrowd searches for a few documents of the crowd.
func checkCrowd(t *testing.T, s *server, collection string) {
	t.Helper()
	for _, i := range []int{0, 59, crowd - 1} {
		id := fmt.Sprintf("%s-%03d", collection, i)
		found := search(t, s, collection, "What is the number of parcel "+id+"?", "-k", "100")
		seen := map[string]int{}
		for _, p := range found {
			if strings.HasPrefix(p.Text, "Parcel "+id) || strings.Contains(p.Text, fmt.Sprintf("Parcel %s has the number %d", id, 4000+i)) {
				seen[p.ExternalID]++
			}
		}
		if seen[id+".md"] != 1 || len(seen) != 1 {
			t.Errorf("parcel %s is found in %v", id, seen)
		}
	}
}

// testWorkers runs every program as a separate process, as a deployment does, and kills the
// ingest-worker, the query-worker and the gateway.
func testWorkers(t *testing.T, p programs) {
	databaseURL := localtest.Database(t)
	nats, temporal := localtest.NATS(t), localtest.Temporal(t)
	env := append([]string{
		"SLUICE_DATABASE_URL=" + localtest.ProgramURL(t, databaseURL), "SLUICE_DATABASE_OWNER_URL=" + databaseURL,
		"SLUICE_DATABASE_VECTOR_URL=" + localtest.VectorURL(t, databaseURL), "SLUICE_NATS_URL=" + nats.URL(),
		"SLUICE_TEMPORAL_ADDRESS=" + temporal.Address, "SLUICE_TEMPORAL_NAMESPACE=" + temporal.Namespace,
		"SLUICE_HEALTH_LISTEN=off", "SLUICE_LISTEN=127.0.0.1:0",
	}, impatient...)
	migrated := p.run(t, env, "sluice", "migrate", "--bootstrap", "default", "--json").ok(t)
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(migrated.out), &made); err != nil || made.APIKey == "" {
		t.Fatalf("no key: %v", migrated)
	}
	p.run(t, env, "sluice", "migrate").ok(t)

	api := p.start(t, append(env, "SLUICE_LOG_LEVEL=info", "SLUICE_LOG_FORMAT=json"), "sluice", "serve")
	s := &server{programs: p, process: api, key: made.APIKey}
	s.url = servedAt(t, api)
	model := newScriptedOpenAI(t, superuser(t, databaseURL))
	envs := map[string][]string{"gpu-segmenter": env, "query-worker": env, "llm-gateway": append(slices.Clip(env),
		"SLUICE_LLM_PROVIDER=openai", "SLUICE_LLM_BASE_URL="+model.URL+"/v1/", "SLUICE_LLM_MODEL=scripted")}
	others := map[string]*process{}
	for name, env := range envs {
		others[name] = p.start(t, env, name)
	}
	worker, segmenter := p.start(t, env, "ingest-worker"), others["gpu-segmenter"].cmd.Process.Pid
	freeze(t, segmenter)
	s.sluice(t, "ingest", writeCrowd(t, "workers"), "-c", "workers").ok(t)
	awaitMiddle(t, s, "workers")
	worker.kill()
	thaw(t, segmenter)
	others["ingest-worker"] = p.start(t, env, "ingest-worker")
	awaitReady(t, s, "workers")
	checkStored(t, superuser(t, databaseURL))
	checkCrowd(t, s, "workers")
	killQuestions(t, s, model, others, envs)
	if job := awaitJob(t, s, startJob(t, s, "workers", "What is the number of parcel workers-100?")); job.State != schema.JobAnswered {
		t.Errorf("the job ended as %+v", job)
	}
	for name, other := range others {
		t.Run("Stop/"+name, func(t *testing.T) { other.stop(t, syscall.SIGTERM) })
	}
	// The API still serves requests that need no worker, and says what is missing for the others.
	s.call(t, http.MethodGet, "/v1/collections", nil).want(t, http.StatusOK)
	s.call(t, http.MethodPost, "/v1/search", map[string]any{"collection": "workers", "query": "parcel"}).problem(t, http.StatusServiceUnavailable, "")
	api.stop(t, syscall.SIGTERM)
}

// servedAt returns the address of `sluice serve` from its log.
func servedAt(t *testing.T, r *process) string {
	t.Helper()
	address := ""
	waittest.Until(t, func() string {
		for line := range strings.Lines(r.log.tail()) {
			var entry struct{ URL string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.URL != "" {
				address = entry.URL
				return ""
			}
		}
		select {
		case <-r.done:
			t.Fatalf("%s has ended: %v\n%s", r.name, r.err, r.log.tail())
			return ""
		default:
			return "sluice serve does not say where it listens:\n" + r.log.tail()
		}
	})
	return address
}

// superuser returns the URL of a test's database with the superuser.
func superuser(t *testing.T, databaseURL string) string {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return localtest.Postgres(t).AdminURL(config.Database)
}
