package main

// Commands on sources, which collections are kept in step with.

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type sourcesCommand struct {
	List    sourcesList    `cmd:"" default:"withargs" help:"List sources, and what they do."`
	Drivers sourcesDrivers `cmd:"" help:"List the kinds of sources, with their settings."`
	Add     sourcesAdd     `cmd:"" help:"Keep a collection in step with a folder or another system."`
	Show    sourcesShow    `cmd:"" help:"Show a source: its newest run, and what it skipped."`
	Change  sourcesChange  `cmd:"" help:"Change settings of a source; it lists everything anew."`
	Preview sourcesPreview `cmd:"" help:"Show what a run would find now."`
	Sync    sourcesSync    `cmd:"" help:"Run a source now."`
	Cancel  sourcesCancel  `cmd:"" help:"End the run that is under way; what it did stays."`
	Pause   sourcesPause   `cmd:"" help:"Stop a source where it is."`
	Resume  sourcesResume  `cmd:"" help:"Have a source go on that was paused or stopped."`
	Confirm sourcesConfirm `cmd:"" help:"Delete the documents of deleted items, however many they are; a source that is asking waits for it."`
	Remove  sourcesRemove  `cmd:"" help:"Remove a source, and its documents unless they are kept."`

	Principals sourcesPrincipals `cmd:"" help:"List the users and groups of a source, with who they are here."`
	Map        sourcesMap        `cmd:"" help:"Say that somebody is a user or a group of a source."`
	Unmap      sourcesUnmap      `cmd:"" help:"Say that somebody is not a user or a group of a source."`
}

type sourcesList struct {
	remote
	Collection string `help:"Only those of this collection."`
}

func (l *sourcesList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Sources(ctx, l.Collection), "NAME DRIVER STATE DOCUMENTS NEXT PROBLEM", func(s schema.Source) []any {
		return []any{s.Name, s.Driver, s.State, s.Documents, at(s.NextAt), s.Problem}
	})
}

// at formats a time for lists; "-" for nil.
func at(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

type sourcesDrivers struct{ remote }

func (d *sourcesDrivers) Run(ctx context.Context) error {
	c, err := d.client()
	if err != nil {
		return err
	}
	found, err := c.SourceDrivers(ctx)
	if err != nil {
		return err
	}
	if d.JSON {
		return printJSON(found.Items)
	}
	if len(found.Items) == 0 {
		fmt.Println("No source-worker has run yet, so there is no driver.")
	}
	for _, driver := range found.Items {
		running := ""
		if !driver.Running {
			running = " (no source-worker with it runs now)"
		}
		fmt.Printf("%s: %s%s\n", driver.Name, printable(driver.Summary), running)
		for _, f := range driver.Fields {
			fmt.Printf("  %-20s %s\n", f.Name, printable(describeField(f)))
		}
	}
	return nil
}

// describeField describes a setting and its allowed values.
func describeField(f schema.SourceField) string {
	out := f.Summary
	if len(f.Values) > 0 {
		out += " One of " + strings.Join(f.Values, ", ") + "."
	}
	if f.Required {
		out += " Required."
	}
	if f.Secret {
		out += " Secret."
	}
	return out
}

// sourceSettings has the flags of a driver's settings.
type sourceSettings struct {
	Set     map[string]string `short:"s" placeholder:"NAME=VALUE" help:"A setting of the driver; may be repeated. 'sluice sources drivers' lists them."`
	SetFile map[string]string `placeholder:"NAME=FILE" help:"A setting whose value is in a file, as a password should be; may be repeated."`
}

// values returns the values of the flags, including those from files.
func (s sourceSettings) values() (map[string]string, error) {
	out := map[string]string{}
	for name, value := range s.Set {
		out[name] = value
	}
	for name, file := range s.SetFile {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the setting %s: %w", name, err)
		}
		out[name] = strings.TrimRight(string(text), "\r\n")
	}
	return out, nil
}

type sourcesAdd struct {
	remote
	sourceSettings
	Name       string        `arg:"" help:"What the source is called."`
	Driver     string        `arg:"" help:"The kind of source."`
	Collection string        `required:"" short:"c" help:"The collection that its documents come to."`
	Include    []string      `help:"Pattern of paths that are followed, as *.pdf or handbook/**; may be repeated." sep:"none"`
	Exclude    []string      `help:"Pattern of paths that are not; may be repeated." sep:"none"`
	Label      []string      `help:"Label that its documents get; may be repeated." sep:"none"`
	Every      time.Duration `default:"1h" help:"Time between two runs, in whole minutes; 0: it runs when somebody asks."`
	MaxBytes   int64         `help:"Largest item, in bytes."`
	MaxItems   int64         `help:"Most items."`
	MaxShorter int           `default:"20" help:"A listing shorter by so many per cent deletes nothing until you confirm it; 100: it never asks."`
	Paused     bool          `help:"Don't run before 'sluice sources resume'."`
}

func (a *sourcesAdd) Run(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	values, err := a.values()
	if err != nil {
		return err
	}
	every, err := minutes(a.Every)
	if err != nil {
		return err
	}
	if _, err := c.Collection(ctx, a.Collection); apiclient.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("%w; 'sluice collections create %s' makes it", err, a.Collection)
	}
	created, err := c.CreateSource(ctx, api.NewSource{Name: a.Name, Collection: a.Collection, Driver: a.Driver, Settings: values, Paused: a.Paused,
		SourceRules: api.SourceRules{Include: a.Include, Exclude: a.Exclude, Labels: a.Label, MaxBytes: a.MaxBytes, MaxItems: a.MaxItems,
			MaxShorter: a.MaxShorter, Every: &every}})
	if err != nil {
		return err
	}
	return printSource(created, a.JSON)
}

// minutes converts the interval between runs to minutes.
func minutes(d time.Duration) (int, error) {
	if d < 0 || d%time.Minute != 0 {
		return 0, schema.Invalid("every", "%s is not a whole number of minutes, such as 15m or 24h", d)
	}
	return int(d / time.Minute), nil
}

// printSource prints a source on a few lines.
func printSource(s schema.Source, asJSON bool) error {
	if asJSON {
		return printJSON(s)
	}
	fmt.Printf("%s  %s  %s\n", s.Name, s.Driver, s.State)
	if s.Problem != "" {
		since := ""
		if s.ProblemSince != nil {
			since = " (since " + at(s.ProblemSince) + ")"
		}
		fmt.Printf("  %s%s\n", printable(s.Problem), since)
	}
	fmt.Printf("  %s, %s, %d to do; next %s\n", plural(s.Items, "item"), plural(s.Documents, "document"), s.Pending, at(s.NextAt))
	if r := s.Run; r != nil {
		state := r.State
		if s.State == schema.SourceAsking { // the source waits for an answer
			state = string(s.State)
		}
		fmt.Printf("  run %s is %s: %d seen, %d added, %d changed, %d unchanged, %d moved, %d deleted, %d skipped; %d fetched, %s\n", r.ID, state,
			r.Seen, r.Added, r.Changed, r.Unchanged, r.Moved, r.Deleted, r.Skipped, r.Fetched, schema.FormatBytes(r.Bytes))
	}
	return nil
}

// sourceArg is the argument of commands on a source.
type sourceArg struct {
	remote
	Source string `arg:"" help:"The source's name, or its id."`
}

// do makes the server perform an action on the source, and prints the source.
func (o sourceArg) do(ctx context.Context, action string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	s, err := c.SourceAction(ctx, o.Source, action)
	if err != nil {
		return err
	}
	return printSource(s, o.JSON)
}

type sourcesShow struct {
	sourceArg
	Skipped bool `help:"List what the newest run left out, with reasons."`
	Items   bool `help:"List the items."`
	Runs    bool `help:"List the runs, newest first."`
}

func (s *sourcesShow) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	switch {
	case s.Skipped:
		return printList(s.JSON, c.SourceSkipped(ctx, s.Source), "PATH REASON", func(x schema.SourceSkipped) []any { return []any{x.Path, x.Reason} })
	case s.Items:
		return printList(s.JSON, c.SourceItems(ctx, s.Source), "PATH SIZE PENDING REASON", func(x schema.SourceItem) []any {
			return []any{x.Path, x.Size, x.Pending, x.Reason}
		})
	case s.Runs:
		return printList(s.JSON, c.SourceRuns(ctx, s.Source), "STARTED STATE SEEN ADDED CHANGED DELETED SKIPPED FETCHED PROBLEM", func(r schema.SourceRun) []any {
			return []any{r.StartedAt.Local().Format(time.DateTime), r.State, r.Seen, r.Added, r.Changed, r.Deleted, r.Skipped, r.Fetched, r.Problem}
		})
	}
	found, err := c.Source(ctx, s.Source)
	if err != nil {
		return err
	}
	return printSource(found, s.JSON)
}

type sourcesChange struct {
	sourceArg
	sourceSettings
	Include    *[]string      `help:"Patterns of paths that are followed, in place of those before." sep:"none"`
	Exclude    *[]string      `help:"Patterns of paths that are not." sep:"none"`
	Label      *[]string      `help:"Labels that its documents get." sep:"none"`
	Every      *time.Duration `help:"Time between two runs, in whole minutes; 0: it runs when somebody asks."`
	MaxBytes   *int64         `help:"Largest item, in bytes."`
	MaxItems   *int64         `help:"Most items."`
	MaxShorter *int           `help:"A listing shorter by so many per cent deletes nothing until you confirm it; 100: it never asks."`
}

func (s *sourcesChange) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	values, err := s.values()
	if err != nil {
		return err
	}
	change := api.SourceChange{Settings: values, Include: s.Include, Exclude: s.Exclude, Labels: s.Label, MaxBytes: s.MaxBytes, MaxItems: s.MaxItems, MaxShorter: s.MaxShorter}
	if s.Every != nil {
		every, err := minutes(*s.Every)
		if err != nil {
			return err
		}
		change.Every = &every
	}
	changed, err := c.ChangeSource(ctx, s.Source, change)
	if err != nil {
		return err
	}
	return printSource(changed, s.JSON)
}

type sourcesPreview struct {
	sourceArg
	Limit int `default:"100" help:"Items that are shown at most."`
}

func (p *sourcesPreview) Run(ctx context.Context) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	found, err := c.PreviewSource(ctx, p.Source, p.Limit)
	if err != nil {
		return err
	}
	if p.JSON {
		return printJSON(found)
	}
	for _, item := range found.Items {
		fmt.Printf("%-6s %12d  %s\n", item.Would, item.Size, printable(item.Path))
	}
	for _, s := range found.Skipped {
		fmt.Printf("skip   %12s  %s: %s\n", "", printable(s.Path), printable(s.Reason))
	}
	if found.More {
		fmt.Println("There is more; --limit shows up to 1000.")
	}
	return nil
}

type sourcesSync struct {
	sourceArg
	Wait bool `help:"Wait until the run has ended, or needs somebody."`
}

func (s *sourcesSync) Run(ctx context.Context) error {
	if !s.Wait {
		return s.do(ctx, apiclient.SourceRun)
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	before, err := c.SourceAction(ctx, s.Source, apiclient.SourceRun)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now, err := c.Source(ctx, s.Source)
		if err != nil {
			return err
		}
		// The requested run has another id than the earlier one, unless the earlier one had not
		// finished.
		begun := before.Run == nil && now.Run != nil || before.Run != nil && (before.Run.FinishedAt == nil || now.Run.ID != before.Run.ID)
		switch now.State {
		case schema.SourceRefused, schema.SourceInvalid, schema.SourceAsking, schema.SourcePaused:
			if err := printSource(now, s.JSON); err != nil {
				return err
			}
			return errSilent
		}
		if begun && now.Run.FinishedAt != nil {
			return printSource(now, s.JSON)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

type sourcesCancel struct{ sourceArg }

func (s *sourcesCancel) Run(ctx context.Context) error { return s.do(ctx, apiclient.SourceCancel) }

type sourcesPause struct{ sourceArg }

func (s *sourcesPause) Run(ctx context.Context) error { return s.do(ctx, apiclient.SourcePause) }

type sourcesResume struct{ sourceArg }

func (s *sourcesResume) Run(ctx context.Context) error { return s.do(ctx, apiclient.SourceResume) }

type sourcesConfirm struct {
	sourceArg
	RunID string `name:"run" help:"The run that asks, as 'sluice sources show' has it; the newest when left out."`
}

func (s *sourcesConfirm) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	confirmed, err := c.ConfirmSource(ctx, s.Source, s.RunID)
	if err != nil {
		return err
	}
	return printSource(confirmed, s.JSON)
}

type sourcesRemove struct {
	sourceArg
	KeepDocuments bool `help:"Its documents stay in the collection."`
}

func (s *sourcesRemove) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	removed, err := c.RemoveSource(ctx, s.Source, s.KeepDocuments)
	if err != nil {
		return err
	}
	return printSource(removed, s.JSON)
}
