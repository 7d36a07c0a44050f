//go:build soak

package e2e

// This file is `make soak`: one `sluice up` works for half an hour, or SOAK_DURATION, while every
// part of it is unavailable for a minute in turn. Nothing may be lost, and memory must not grow.

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestSoak warms up, and then repeats rounds of work with one fault each until the time is over.
func TestSoak(t *testing.T) {
	duration := setting(t, "SOAK_DURATION", 30*time.Minute)
	hold := min(setting(t, "SOAK_FAULT", time.Minute), duration/time.Duration(2*len(faults)))
	articles, questions := squadArticles(t)
	if articles == nil {
		t.Fatal("the soak test needs squad-articles")
	}
	b := newBed(t, build(t))
	l := newLoad(t, b.server, articles, questions[:100])
	b.call(t, http.MethodPost, "/v1/collections", map[string]any{"name": changing}).want(t, http.StatusCreated)
	k := &soak{bed: b, load: l}
	begun := time.Now()

	// All articles and jobs are sent during one fault of each kind, which also warms up the memory.
	for i, f := range faults {
		l.part(t, i, len(faults))
		k.fault(t, f, hold)
	}
	l.sending.Wait()
	k.round(t)
	k.sample(t, "warm")
	first := k.heap(t)
	for n := 0; time.Since(begun) < duration; n++ { //house:clock how long it runs
		k.round(t)
		k.fault(t, faults[n%len(faults)], hold)
		k.sample(t, faults[n%len(faults)].name)
	}
	k.round(t)
	last := k.heap(t)
	k.sample(t, "end")
	l.finish(t)
	b.nothingLeft(t, l)
	k.report(t, first, last)
}

func setting(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s is %q: it must be a time such as 30m", name, text)
	}
	return d
}

// soak is a bed under load, with its memory use.
type soak struct {
	*bed
	load   *load
	rounds int
	rows   []row
}

// row is a sample of the processes' memory.
type row struct {
	at    time.Time
	after string
	rss   map[string]int64 // bytes, by program
	said  string
}

func (k *soak) fault(t *testing.T, f fault, hold time.Duration) {
	t.Helper()
	back := f.take(t, k.bed)
	k.load.pause(hold)
	back()
	k.load.serves(t)
	t.Logf("%s for %s; %s", f.name, hold, k.load.said())
}

// changing is the collection whose documents are uploaded, changed and deleted.
const changing = "changing"

// round uploads documents, changes them and deletes them, and checks the effects.
func (k *soak) round(t *testing.T) {
	t.Helper()
	k.rounds++
	const documents = 20
	put := func(version string) {
		for i := range documents {
			k.load.insist("change", http.MethodPut, fmt.Sprintf("/v1/collections/%s/content?external_id=doc-%d", changing, i), "",
				fmt.Appendf(nil, "Parcel %d of round %d, as %s. It lies north of the canal.", i, k.rounds, version), "text/plain")
		}
	}
	put("uploaded")
	put("changed")
	k.awaitReady(t, documents)
	page := as[api.Page[schema.Document]](t, k.ok(t, http.MethodGet, "/v1/collections/"+changing+"/documents?limit=100"))
	for _, d := range page.Items {
		if d.State != schema.StateReady {
			t.Errorf("%s is %s", d.ExternalID, d.State)
		}
		k.load.insist("delete", http.MethodDelete, "/v1/documents/"+d.ID.String(), "", nil, "application/json")
	}
	if len(page.Items) != documents {
		t.Errorf("%d documents, want %d", len(page.Items), documents)
	}
	k.awaitReady(t, 0)
}

func (k *soak) awaitReady(t *testing.T, n int64) {
	t.Helper()
	waittest.Until(t, func() string {
		c := as[schema.Collection](t, k.ok(t, http.MethodGet, "/v1/collections/"+changing)).Counts
		if c[schema.StateReady] == n && unfinished(c) == 0 && c[schema.StateFailed] == 0 {
			return ""
		}
		return fmt.Sprintf("want %d ready documents of round %d: %v", n, k.rounds, c)
	})
}

// ok repeats a request until the status is not 503.
func (k *soak) ok(t *testing.T, method, path string) reply {
	t.Helper()
	for {
		r := k.call(t, method, path, nil)
		if r.status != http.StatusServiceUnavailable {
			return r.want(t, http.StatusOK)
		}
		k.load.pause(200 * time.Millisecond)
	}
}

// sample records the resident memory of the processes.
func (k *soak) sample(t *testing.T, after string) {
	t.Helper()
	r := row{at: time.Now(), after: after, rss: map[string]int64{"sluice": resident(t, k.cmd.Process.Pid)}, said: k.load.said()}
	r.rss["gpu-segmenter"] = resident(t, k.child(t, "gpu-segmenter"))
	k.rows = append(k.rows, r)
}

func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// heap has sluice write a heap profile, and returns the file.
func (k *soak) heap(t *testing.T) string {
	t.Helper()
	find := func() []string {
		files, err := filepath.Glob(filepath.Join(k.data, "profiles", "heap-*.pprof"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		return files
	}
	before := len(find())
	if err := k.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		if len(find()) == before {
			return "no heap profile yet"
		}
		return ""
	})
	return find()[before]
}

// report prints the samples, and fails if memory grew steadily: if all samples of the last third
// are over those of the first third by more than a quarter.
func (k *soak) report(t *testing.T, first, last string) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "after\tminutes\tsluice MB\tgpu-segmenter MB")
	for _, r := range k.rows {
		fmt.Fprintf(w, "%s\t%.1f\t%d\t%d\n", r.after, r.at.Sub(k.rows[0].at).Minutes(), r.rss["sluice"]>>20, r.rss["gpu-segmenter"]>>20)
	}
	_ = w.Flush()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-sample_index=inuse_space", "-top", "-nodecount=15", "-diff_base="+first,
		k.path("sluice"), last).CombinedOutput()
	if err != nil {
		t.Errorf("comparing heap profiles: %v\n%s", err, out)
	}
	fmt.Printf("%s\nheap at the end less that after the warm-up:\n%s\n%s\n", b.String(), out, k.load.said())
	for _, name := range []string{"sluice", "gpu-segmenter"} {
		var all []int64
		for _, r := range k.rows {
			all = append(all, r.rss[name])
		}
		third := max(1, len(all)/3)
		if len(all) >= 6 && slices.Min(all[len(all)-third:]) > slices.Max(all[:third])*5/4 {
			t.Errorf("the memory of %s grows: %v MB", name, megabytes(all))
		}
	}
}

func megabytes(all []int64) (out []int64) {
	for _, n := range all {
		out = append(out, n>>20)
	}
	return out
}
