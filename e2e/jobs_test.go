package e2e

import (
	"fmt"
	"testing"

	"github.com/sluice-rag/sluice/schema"
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
	eventually(t, func() string {
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
	// The same as when it is asked for at once.
	if now := ask(t, s, "jobs", question); now.Answer != job.Result.Answer {
		t.Errorf("the job says %q, and asked at once it is %q", job.Result.Answer, now.Answer)
	}
	s.sluice(t, "jobs", "show", job.ID.String()).ok(t).has(t, "answered", "tower.txt")
	s.sluice(t, "jobs", "list").ok(t).has(t, job.ID.String(), question)
	s.sluice(t, "jobs", "cancel", job.ID.String()).fails(t, "answered")
	s.sluice(t, "jobs", "show", "nonsense").fails(t, "job", "UUID")

	// A job that can't get on, because the model server stands still, can be cancelled.
	model := s.child(t, "gpu-segmenter")
	freeze(t, model)
	stuck := startJob(t, s, "jobs", question)
	cancelled := into[schema.Job](t, s.sluice(t, "jobs", "cancel", stuck.ID.String(), "--json").ok(t))
	thaw(t, model)
	if cancelled.State != schema.JobCancelled || cancelled.Result != nil {
		t.Errorf("the cancelled job is %+v", cancelled)
	}
	// It stays so, and others go on.
	if other := awaitJob(t, s, startJob(t, s, "jobs", question)); other.State != schema.JobAnswered {
		t.Errorf("the next job ended as %+v", other)
	}
	if after := showJob(t, s, stuck.ID.String()); after.State != schema.JobCancelled || after.Result != nil {
		t.Errorf("the cancelled job became %+v", after)
	}
}
