package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func startJob(t *testing.T, s *server, collection, question string) schema.Job {
	t.Helper()
	return into[schema.Job](t, s.sluice(t, "ask", question, "-c", collection, "--async", "--json").ok(t))
}

func showJob(t *testing.T, s *server, id string) schema.Job {
	t.Helper()
	return into[schema.Job](t, s.sluice(t, "jobs", "show", id, "--json").ok(t))
}

// awaitJob waits until a job has ended.
func awaitJob(t *testing.T, s *server, job schema.Job) schema.Job {
	t.Helper()
	waittest.Until(t, func() string {
		job = showJob(t, s, job.ID.String())
		if !job.State.Final() {
			return fmt.Sprintf("job %s is %s (%s)", job.ID, job.State, job.Stage)
		}
		return ""
	})
	return job
}

func testJobs(t *testing.T, s *server) {
	s.sluice(t, "ingest", write(t, map[string]string{"tower.txt": "The water tower of Hobbleton is painted in orange and white stripes."}),
		"-c", "jobs", "--wait").ok(t)
	const question = "How is the water tower of Hobbleton painted?"
	job := startJob(t, s, "jobs", question)
	if job.Question != question || job.State.Final() {
		t.Errorf("the job begins as %+v", job)
	}
	job = awaitJob(t, s, job)
	if job.State != schema.JobAnswered || job.Result == nil || job.FinishedAt == nil {
		t.Fatalf("the job ended as %+v", job)
	}
	if a := job.Result; !a.Supported || len(a.Citations) == 0 || a.Citations[0].Document != "tower.txt" || !containsAll(a.Answer, []string{"orange and white"}) {
		t.Errorf("the answer is %+v", a)
	}
	// The job's answer is the same as that of a direct question.
	if now := ask(t, s, "jobs", question); now.Answer != job.Result.Answer {
		t.Errorf("the job says %q, and asked at once it is %q", job.Result.Answer, now.Answer)
	}
	s.sluice(t, "jobs", "show", job.ID.String()).ok(t).has(t, "answered", "tower.txt")
	s.sluice(t, "jobs", "list").ok(t).has(t, job.ID.String(), question)
	s.sluice(t, "jobs", "cancel", job.ID.String()).fails(t, "answered")
	s.sluice(t, "jobs", "show", "nonsense").fails(t, "job", "UUID")

	testFollowing(t, s)

	// A job that waits for the frozen model server can be cancelled.
	model := s.child(t, "gpu-segmenter")
	freeze(t, model)
	stuck := startJob(t, s, "jobs", question)
	cancelled := into[schema.Job](t, s.sluice(t, "jobs", "cancel", stuck.ID.String(), "--json").ok(t))
	thaw(t, model)
	if cancelled.State != schema.JobCancelled || cancelled.Result != nil {
		t.Errorf("the cancelled job is %+v", cancelled)
	}
	// The job stays cancelled, and other jobs are answered.
	if other := awaitJob(t, s, startJob(t, s, "jobs", question)); other.State != schema.JobAnswered {
		t.Errorf("the next job ended as %+v", other)
	}
	if after := showJob(t, s, stuck.ID.String()); after.State != schema.JobCancelled || after.Result != nil {
		t.Errorf("the cancelled job became %+v", after)
	}
}

// testFollowing follows a multiple-choice job. The text of its answer comes before its end.
func testFollowing(t *testing.T, s *server) {
	choices := []string{"in green", "in orange and white stripes", "not at all"}
	model := s.child(t, "gpu-segmenter")
	freeze(t, model) // nothing is sent before a client listens
	args := []string{"ask", "How is the water tower of Hobbleton painted?", "-c", "jobs", "--async", "--json"}
	for _, c := range choices {
		args = append(args, "--choice", c)
	}
	job := into[schema.Job](t, s.sluice(t, args...).ok(t))
	follow := func(first func()) (texts []api.DeltaEvent, last schema.Job) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/jobs/"+job.ID.String()+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.key)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		got, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		lines, name := bufio.NewScanner(got.Body), ""
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			var out any
			switch {
			case key == "event":
				name = value
			case key == "data" && name == api.EventDelta:
				texts = append(texts, api.DeltaEvent{})
				out = &texts[len(texts)-1]
			case key == "data" && name == api.EventJob:
				last, out = schema.Job{}, &last
			}
			if out == nil {
				continue
			}
			if err := json.Unmarshal([]byte(value), out); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			if name == api.EventJob {
				first()
			}
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
		return texts, last
	}
	texts, last := follow(sync.OnceFunc(func() { thaw(t, model) }))
	if last.State != schema.JobAnswered || last.Result == nil || last.Result.Choice != 2 || last.Result.Answer != choices[1] || !slices.Equal(last.Choices, choices) {
		t.Errorf("the job ended as %+v", last)
	}
	if len(texts) == 0 || !texts[0].Restart || texts[len(texts)-1].Text != choices[1] {
		t.Errorf("of its answer was told %+v", texts)
	}
	if texts, again := follow(func() {}); len(texts) != 0 || again.Result == nil || again.Result.Choice != 2 {
		t.Errorf("who came late was told %+v and %+v", texts, again)
	}
	s.sluice(t, "jobs", "show", job.ID.String()).ok(t).has(t, "answered", "B) "+choices[1])
	s.sluice(t, "ask", "What now?", "-c", "jobs", "--async", "--choice", "only one").fails(t, "choices", "2")
}
