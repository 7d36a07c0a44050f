package main

// This file measures the quality of searches while the second encoder encodes a collection in the
// background: nDCG@10 by the seconds since the upload began.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

type secondCommand struct {
	Dataset string        `arg:"" help:"BEIR folder: corpus.jsonl, queries.jsonl, qrels/."`
	Plans   []string      `default:"naive,sluice" help:"Plans to ask under."`
	Limit   int           `default:"100" help:"Questions of one look, the same each time."`
	Every   time.Duration `default:"20s" help:"Pause between two looks, in which nothing is asked."`
	Pack    string        `default:"large" help:"Model pack of the second encoder."`
	Share   int           `default:"25" help:"Its share of the processors' time, in per cent."`
	Program string        `placeholder:"FILE" help:"The sluice to measure; the one beside this program when empty."`
	Picture string        `placeholder:"FILE" help:"Draw it there, as SVG."`
	JSON    string        `placeholder:"FILE" help:"Write the looks there, as JSON."`
	Timeout time.Duration `default:"60m" help:"Longest time of the whole measurement."`
}

// secondSnapshot is the quality of searches at one moment.
type secondSnapshot struct {
	Seconds float64            `json:"seconds"` // since the upload began, at the middle of the measurement
	NDCG    map[string]float64 `json:"ndcg_at_10"`
	P50     map[string]float64 `json:"p50_millis"`
	Encoded float64            `json:"encoded"` // share of the documents that the second encoder has encoded
	Live    bool               `json:"live"`    // whether the second encoder's generation is live
}

func (c *secondCommand) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	program, err := siblingProgram(c.Program, "sluice")
	if err != nil {
		return err
	}
	progressf("second: starting")
	b, err := newInstallation(ctx, program, "--second-pack", c.Pack, fmt.Sprintf("--second-share=%d", c.Share))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	snapshots, err := c.watch(ctx, b)
	if err != nil {
		return fmt.Errorf("second: %w", err)
	}
	if c.JSON != "" {
		data, err := json.MarshalIndent(snapshots, "", "  ")
		if err == nil {
			err = os.WriteFile(c.JSON, append(data, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write the looks: %w", err)
		}
	}
	if c.Picture == "" {
		return nil
	}
	return os.WriteFile(c.Picture, []byte(secondChart(filepath.Base(c.Dataset), c.Plans, snapshots)), 0o644)
}

// watch repeats look until the second encoder's generation is live, and once more.
func (c *secondCommand) watch(ctx context.Context, b *installation) (snapshots []secondSnapshot, err error) {
	client, err := b.client()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	for {
		from := time.Now()
		snapshot, err := c.snapshot(ctx, b)
		if err != nil {
			return nil, err
		}
		before := snapshot.Live
		if snapshot.Encoded, snapshot.Live, err = encodedShare(ctx, client); err != nil {
			return nil, err
		}
		if len(snapshots) == 0 {
			from = time.Now() // the first measurement also uploaded
		}
		snapshot.Seconds = time.Since(begin).Seconds() - time.Since(from).Seconds()/2
		progressf("%4.0f s: %3.0f %% encoded, live %v, nDCG@10 %v, p50 %v", snapshot.Seconds, 100*snapshot.Encoded, snapshot.Live, snapshot.NDCG, snapshot.P50)
		if snapshots = append(snapshots, snapshot); snapshot.Live && (before || len(snapshots) > 1 && snapshots[len(snapshots)-2].Live) {
			return snapshots, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(c.Every):
		}
	}
}

// snapshot asks the questions. The first time it uploads the documents first.
func (c *secondCommand) snapshot(ctx context.Context, b *installation) (snapshot secondSnapshot, err error) {
	cmd := exec.CommandContext(ctx, b.program, "eval", c.Dataset, "--plan", strings.Join(c.Plans, ","), "--keep", "--parallel", "1",
		fmt.Sprintf("--limit=%d", c.Limit), "--json", "-")
	cmd.Env = append(environment(), "SLUICE_URL="+b.access.URL, "SLUICE_API_KEY="+b.access.APIKey)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return snapshot, fmt.Errorf("sluice eval: %w: %s", err, words.String())
	}
	var summary schema.EvaluationReport
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil {
		return snapshot, fmt.Errorf("read what sluice eval found: %w", err)
	}
	snapshot.NDCG, snapshot.P50 = map[string]float64{}, map[string]float64{}
	for _, p := range summary.Plans {
		snapshot.NDCG[p.Plan], snapshot.P50[p.Plan] = p.Metrics["ndcg@10"], p.Millis.P50
	}
	return snapshot, nil
}

// encodedShare returns the second encoder's progress in the only collection.
func encodedShare(ctx context.Context, client *apiclient.Client) (encoded float64, live bool, err error) {
	for collection, err := range client.Collections(ctx) {
		if err != nil {
			return 0, false, err
		}
		r, err := client.Rebuild(ctx, collection.Name)
		if errors.Is(err, schema.ErrNotFound) { // the second encoder has not begun
			return 0, false, nil
		}
		return min(1, float64(r.Versions)/float64(max(r.Total, 1))), r.State == schema.GenerationLive, err
	}
	return 0, false, errors.New("the collection is gone")
}

// secondChart draws the measurements: a line for each plan, and when the generation went live.
func secondChart(dataset string, plans []string, snapshots []secondSnapshot) string {
	const width, height, left, top, right, bottom = 720.0, 320.0, 56.0, 34.0, 110.0, 46.0
	last := snapshots[len(snapshots)-1].Seconds
	low, high := 1.0, 0.0
	for _, l := range snapshots {
		for _, p := range plans {
			low, high = min(low, l.NDCG[p]), max(high, l.NDCG[p])
		}
	}
	low, high = max(0, low-0.05), min(1, high+0.05)
	x := func(seconds float64) float64 { return left + seconds/last*(width-left-right) }
	y := func(ndcg float64) float64 { return top + (high-ndcg)/(high-low)*(height-top-bottom) }
	colours := []string{"#2166ac", "#b2182b", "#4d9221", "#762a83"}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%g" height="%g" fill="#ffffff"/><text x="%g" y="20" font-size="14">%s: nDCG@10 by seconds since the upload began</text>`+"\n", width, height, left, dataset)
	for i := range 5 {
		v := low + (high-low)*float64(i)/4
		fmt.Fprintf(&s, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#dddddd"/><text x="%g" y="%.1f" text-anchor="end">%.2f</text>`+"\n", left, width-right, y(v), y(v), left-6, y(v)+4, v)
		at := last * float64(i) / 4
		fmt.Fprintf(&s, `<text x="%.1f" y="%g" text-anchor="middle">%.0f s</text>`+"\n", x(at), height-bottom+18, at)
	}
	if live := slices.IndexFunc(snapshots, func(l secondSnapshot) bool { return l.Live }); live >= 0 {
		at := x(snapshots[live].Seconds)
		fmt.Fprintf(&s, `<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="#888888" stroke-dasharray="4 4"/><text x="%.1f" y="%g" text-anchor="end" fill="#555555">the second encoder's generation is live</text>`+"\n",
			at, at, top, height-bottom, at-4, height-bottom-6)
	}
	for i, p := range plans {
		colour := colours[i%len(colours)]
		var points []string
		for _, l := range snapshots {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(l.Seconds), y(l.NDCG[p])))
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(l.Seconds), y(l.NDCG[p]), colour)
		}
		fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/><text x="%g" y="%.1f" fill="%s">%s</text>`+"\n",
			strings.Join(points, " "), colour, width-right+8, y(snapshots[len(snapshots)-1].NDCG[p])+4, colour, p)
	}
	return s.String() + "</svg>\n"
}
