package main

// This file has the result of an ingestion measurement: the values computed from it, and how it is
// printed.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// limit is the maximum ratio of the wall time to the time that the machine would take if nothing
// ever waited.
const limit = 1.3

// ratioText defines the ratio.
const ratioText = "wall time / ((parse + model + SQL CPU seconds) / cores)"

// partTexts describe the CPU seconds of the parts.
var partTexts = map[part]string{
	partParse:    "parser children of the ingest worker",
	partModel:    "gpu-segmenter",
	partSQL:      "PostgreSQL, with all its backends and background processes",
	partSluice:   "sluice up: API, ingest worker, relay, clients of NATS and Temporal",
	partNATS:     "the NATS server",
	partTemporal: "the Temporal server",
	partClient:   "sluice ingest",
}

// ingestResult is one measured ingestion. Times are in seconds.
type ingestResult struct {
	Corpus    string `json:"corpus"`
	Documents int    `json:"documents"` // documents that became ready
	Failed    int    `json:"failed"`
	Bytes     int64  `json:"bytes"`
	Passages  int64  `json:"passages"`

	Cores int     `json:"cores"`
	Wall  float64 `json:"wall_seconds"`
	// CPU has the CPU seconds by part; SystemBusy those of all processes on the machine.
	CPU        map[part]float64 `json:"cpu_seconds"`
	SystemBusy float64          `json:"system_cpu_seconds"`

	Batches      int     `json:"batches"`
	BatchSeconds float64 `json:"batch_seconds"` // from the first message of a batch to its end, summed over batches
	// Workflows is the duration of the batches' workflows, summed over batches.
	Workflows float64 `json:"workflow_seconds"`
	// Stages is the time of batches by "stage/part", including waiting, summed over batches.
	Stages map[string]float64 `json:"stage_seconds"`
}

// MarshalJSON adds the values that are computed from the figures.
func (r *ingestResult) MarshalJSON() ([]byte, error) {
	type figures ingestResult
	return json.Marshal(struct {
		*figures
		DocumentsPerSecond float64 `json:"documents_per_second"`
		Spans              []span  `json:"batch_time"`
		RatioIs            string  `json:"ratio_is"`
		Ratio              float64 `json:"ratio"`
		RatioLimit         float64 `json:"ratio_limit"`
		Others             float64 `json:"share_of_machine_for_others"`
		Bottleneck         string  `json:"bottleneck"`
	}{(*figures)(r), float64(r.Documents) / r.Wall, r.spans(), ratioText, r.ratio(), limit, r.others(), r.bottleneck()})
}

// add adds ingestion's metrics of its batches.
func (r *ingestResult) add(p progress) {
	r.Batches, r.BatchSeconds, r.Workflows = int(p.batches), p.seconds, p.durable
	r.Stages = map[string]float64{}
	for s, seconds := range p.stages {
		if seconds > 0 {
			r.Stages[s.stage+"/"+s.part] = seconds
		}
	}
}

// total returns the CPU seconds of all parts.
func (r *ingestResult) total() float64 {
	sum := 0.0
	for _, s := range r.CPU {
		sum += s
	}
	return sum
}

// floor returns the time that parsing, models and SQL alone would take if they were spread over all
// cores without gaps.
func (r *ingestResult) floor() float64 {
	return (r.CPU[partParse] + r.CPU[partModel] + r.CPU[partSQL]) / float64(r.Cores)
}

// ratio returns the wall time divided by the floor.
func (r *ingestResult) ratio() float64 { return r.Wall / r.floor() }

// others returns the share of the machine that other processes took.
func (r *ingestResult) others() float64 {
	return max(0, r.SystemBusy-r.total()) / r.capacity()
}

// capacity returns the available CPU seconds.
func (r *ingestResult) capacity() float64 { return r.Wall * float64(r.Cores) }

// span is a kind of work or waiting, and its share of the batches' time.
type span struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// spans divides the time of the batches: work within stages, Temporal between the stages of a
// workflow, and the rest, in which a batch waits until fewer than four are open and claims its
// versions. Time in NATS counts for the work that it serves.
func (r *ingestResult) spans() []span {
	names := map[string]string{
		"parser": "parsing", "model": "models", "store": "PostgreSQL", "transaction": "PostgreSQL", "text": "cutting text",
	}
	sums := map[string]float64{}
	stages, known := 0.0, 0.0
	for key, seconds := range r.Stages {
		_, part, _ := strings.Cut(key, "/")
		if part == whole {
			stages += seconds
			continue
		}
		known += seconds
		sums[cmp.Or(names[part], part)] += seconds
	}
	sums["within stages, the rest"] = max(0, stages-known)
	sums["Temporal, between stages"] = max(0, r.Workflows-stages)
	sums[queueing] = max(0, r.BatchSeconds-max(r.Workflows, stages))
	var out []span
	for name, seconds := range sums {
		out = append(out, span{name, seconds})
	}
	slices.SortFunc(out, func(a, b span) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// queueing is the span in which a batch waits behind open batches. It does not show what those wait
// for.
const queueing = "waiting for a turn, and claiming"

// saturated is the share of the machine from which CPU time is the bottleneck.
const saturated = 0.85

// bottleneck names what limits the throughput of ingestion.
func (r *ingestResult) bottleneck() string {
	bottleneck := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(r.CPU[a], r.CPU[b]) })
	spans := slices.DeleteFunc(r.spans(), func(s span) bool { return s.Name == queueing })
	own := r.total() / r.capacity()
	if own+r.others() >= saturated {
		return fmt.Sprintf("CPU (%.0f %% of the machine is at work); most of it goes to %s (%.0f %%)",
			100*min(1, own+r.others()), partTexts[bottleneck], 100*r.CPU[bottleneck]/r.total())
	}
	return fmt.Sprintf("waiting (only %.0f %% of the machine is at work); a batch's time goes first to %s (%.0f %%)",
		100*own, spans[0].Name, 100*spans[0].Seconds/r.BatchSeconds)
}

// check returns an error if a result is not meaningful.
func (r *ingestResult) check() error {
	switch {
	case r.Documents == 0:
		return errors.New("no document became ready")
	case r.floor() <= 0 || r.Wall <= 0:
		return errors.New("too little happened to be measured; ingest more")
	}
	return nil
}

// print writes the result for people.
func (r *ingestResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	line("documents\t%s: %d ready, %d failed, %.1f MB, %d passages", r.Corpus, r.Documents, r.Failed, float64(r.Bytes)/1e6, r.Passages)
	line("wall time\t%.1f s: %.1f documents/s, %.2f MB/s, %.0f passages/s", r.Wall,
		float64(r.Documents)/r.Wall, float64(r.Bytes)/1e6/r.Wall, float64(r.Passages)/r.Wall)
	line("machine\t%d cores, %.0f %% at work for this; other programs took %.0f %%", r.Cores, 100*r.total()/r.capacity(), 100*r.others())
	line("")
	line("CPU\tseconds\tshare\tof")
	for _, p := range parts {
		line("%s\t%.2f\t%.1f %%\t%s", p, r.CPU[p], 100*r.CPU[p]/r.total(), partTexts[p])
	}
	line("all\t%.2f", r.total())
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line("")
	line("time of %d batches\tseconds\tshare\t(several are open at a time; waiting counts)", r.Batches)
	for _, s := range r.spans() {
		line("%s\t%.2f\t%.1f %%", s.Name, s.Seconds, 100*s.Seconds/r.BatchSeconds)
	}
	line("all\t%.2f", r.BatchSeconds)
	line("")
	line("stage\tseconds\tof it")
	for _, name := range []string{"parse", "index"} {
		line("%s\t%.2f\t%s", name, r.Stages[name+"/"+whole], r.within(name))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	_, err := fmt.Fprintf(out, `
ratio        %s
             = %.1f / ((%.1f + %.1f + %.1f) / %d) = %.1f / %.1f = %.2f   (to reach: at most %.1f)
bottleneck   %s
`, ratioText, r.Wall, r.CPU[partParse], r.CPU[partModel], r.CPU[partSQL], r.Cores, r.Wall, r.floor(), r.ratio(), limit, r.bottleneck())
	if err == nil && r.others() > 0.1 {
		_, err = fmt.Fprintf(out, "\nOther programs took %.0f %% of this machine meanwhile: the wall time is theirs too. Measure again when it is quiet.\n", 100*r.others())
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// within lists the parts of a stage.
func (r *ingestResult) within(name string) string {
	var out []string
	for _, part := range []string{"parser", "text", "model", "store", "transaction"} {
		if seconds := r.Stages[name+"/"+part]; seconds > 0 {
			out = append(out, fmt.Sprintf("%s %.2f", part, seconds))
		}
	}
	return strings.Join(out, ", ")
}
