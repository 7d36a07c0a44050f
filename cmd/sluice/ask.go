package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// question has the flags that searches and questions share.
type question struct {
	queryFlags
	Text string `arg:"" name:"question" help:"What to ask."`
}

func (q question) query(ctx context.Context, c *apiclient.Client) (api.Query, error) {
	out, err := q.queryFlags.query(ctx, c)
	out.Query = q.Text
	return out, err
}

// queryFlags are the flags of all commands that search or ask.
type queryFlags struct {
	remote
	Collection string   `required:"" short:"c" help:"Name or id of the collection."`
	Plan       string   `xor:"plan" placeholder:"PLAN" help:"Retrieval plan; the collection's when empty, or the server's default."`
	PlanFile   string   `xor:"plan" type:"path" placeholder:"FILE" help:"A file with a plan in YAML to run, without storing it."`
	Filter     []string `short:"f" sep:"none" help:"Narrow by metadata, e.g. 'year >= 2024 and region in (emea, apac)'; may be repeated." placeholder:"FILTER"`
	K          int      `short:"k" help:"How many candidates; the plan's own number when 0. An answer is made from these at most."`
}

// query returns the query that the flags describe, without its text. A plan's file is checked here,
// so that errors refer to the file.
func (q queryFlags) query(ctx context.Context, c *apiclient.Client) (api.Query, error) {
	out := api.Query{Collection: q.Collection, Plan: q.Plan, K: q.K}
	if q.PlanFile != "" {
		text, err := readPlan(q.PlanFile)
		if err != nil {
			return out, err
		}
		if _, err := c.CheckPlan(ctx, text); err != nil {
			return out, fmt.Errorf("plan file %s: %w", q.PlanFile, err)
		}
		out.PlanText = text
	}
	for _, text := range q.Filter {
		f, err := schema.ParseFilter(text)
		if err != nil {
			return out, err
		}
		out.Filter = append(out.Filter, f...)
	}
	return out, nil
}

type explainFlag struct {
	Explain bool `help:"Show what each stage of the plan did, kept and dropped."`
}

type searchCommand struct {
	question
	explainFlag
}

func (s *searchCommand) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	q, err := s.query(ctx, c)
	if err != nil {
		return err
	}
	q.Explain = s.Explain
	found, err := c.Search(ctx, q)
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(found)
	}
	for i, p := range found.Passages {
		fmt.Printf("%2d. %.4f  %s  (%s)\n", i+1, p.Score, printable(p.ExternalID), printable(p.Location))
		indent(os.Stdout, "      ", p.Text, 96)
	}
	fmt.Printf("%s in %.0f ms, plan %s; an answer would be made from %s\n", plural(len(found.Passages), "passage"), found.Millis, found.Plan, numbers(found.Context))
	printPlanNote(found.PlanNote)
	if s.Explain {
		printTrace(os.Stdout, found.Trace)
		return nil
	}
	printNotes(os.Stdout, found.Trace)
	return nil
}

type askCommand struct {
	question
	explainFlag
	Choice []string `sep:"none" help:"One of the answers to choose from; give two or more." placeholder:"ANSWER"`
	Risk   *float64 `help:"How likely the answer may be wrong for it to be given, from 0 to 1; what the model pack was calibrated to when left out." placeholder:"RISK"`
	Async  bool     `help:"Ask as a job and print its id; 'sluice jobs show' has the answer."`
	Wait   bool     `help:"With --async: follow the job until it ends, and print its result."`
}

func (a *askCommand) Run(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if a.Risk != nil && !(*a.Risk >= 0 && *a.Risk <= 1) {
		return schema.Invalid("risk", "%g is not a probability from 0 to 1", *a.Risk)
	}
	q, err := a.query(ctx, c)
	if err != nil {
		return err
	}
	q.Choices, q.Risk = a.Choice, a.Risk
	if a.Explain && a.Async && !a.Wait {
		return schema.Invalid("explain", "with --async needs --wait; 'sluice jobs show JOB --json' shows the trace of a job that has ended")
	}
	if a.Async {
		job, err := c.StartJob(ctx, q)
		if err != nil {
			return err
		}
		if a.Wait {
			return a.wait(ctx, c, job)
		}
		return printJob(job, a.JSON)
	}
	if a.Wait {
		return schema.Invalid("wait", "needs --async; without it, the command waits for the answer anyway")
	}
	begin := time.Now()
	answer, err := streamAnswer(ctx, c, q, a.JSON)
	if err != nil || a.JSON {
		return err
	}
	printChoice(answer, q.Choices)
	printCitations(answer)
	fmt.Printf("\n  %.0f ms, plan %s\n", float64(time.Since(begin).Microseconds())/1000, answer.Plan)
	printPlanNote(answer.PlanNote)
	a.trace(answer)
	return nil
}

// trace prints all stages with --explain, else only notes that everybody should see.
func (a *askCommand) trace(answer schema.Answer) {
	if a.Explain {
		printTrace(os.Stdout, answer.Trace)
		return
	}
	printNotes(os.Stdout, answer.Trace)
}

// printPlanNote prints why another plan ran than the collection's.
func printPlanNote(note string) {
	if note != "" {
		fmt.Println("  note: " + printable(note))
	}
}

// wait follows a job and prints its result. On a terminal it shows the steps, and the answer's text
// while it is made. If the job ends without an answer, the program exits with 1.
func (a *askCommand) wait(ctx context.Context, c *apiclient.Client, job schema.Job) error {
	live := !a.JSON && onTerminal()
	s := &screen{out: os.Stderr}
	if live {
		s.out = os.Stdout
	}
	stages := !a.JSON && (live || terminal(os.Stderr))
	ended, err := c.FollowJob(ctx, job.ID, func(j schema.Job) {
		if stages && !j.State.Final() {
			step := j.Stage
			if step == "" {
				step = string(j.State)
			}
			s.show(apiclient.Progress{Stage: &api.StageEvent{Stage: step}})
		}
	}, func(d api.DeltaEvent) {
		if live {
			s.show(apiclient.Progress{Delta: &d})
		}
	})
	if err != nil {
		s.fail()
		return fmt.Errorf("job %s: %w", job.ID, err)
	}
	if live && ended.Result != nil {
		s.end(*ended.Result)
		printChoice(*ended.Result, ended.Choices)
		printCitations(*ended.Result)
		fmt.Printf("\n  job %s, plan %s\n", ended.ID, ended.Result.Plan)
		a.trace(*ended.Result)
		return nil
	}
	s.fail()
	if err := printJob(ended, a.JSON); err != nil {
		return err
	}
	if ended.State != schema.JobAnswered {
		return errSilent
	}
	if !a.JSON && ended.Result != nil {
		a.trace(*ended.Result)
	}
	return nil
}

// streamAnswer asks and prints the answer's text, on a terminal while it is made. As JSON it prints
// the whole answer.
func streamAnswer(ctx context.Context, c *apiclient.Client, q api.Query, asJSON bool) (schema.Answer, error) {
	if !asJSON && onTerminal() {
		s := &screen{out: os.Stdout}
		answer, err := c.AskStreaming(ctx, q, s.show)
		if err != nil {
			s.fail()
			return answer, err
		}
		s.end(answer)
		return answer, nil
	}
	answer, err := c.Ask(ctx, q)
	switch {
	case err != nil:
		return answer, err
	case asJSON:
		return answer, printJSON(answer)
	}
	indent(os.Stdout, "", answer.Answer, 100)
	return answer, nil
}

func printAnswer(a schema.Answer, choices []string) {
	indent(os.Stdout, "", a.Answer, 100)
	printChoice(a, choices)
	printCitations(a)
}

func printCitations(a schema.Answer) {
	for _, note := range a.Notes {
		indent(os.Stdout, "", "Note: "+note, 100)
	}
	if !a.Supported && len(a.Citations) > 0 {
		fmt.Println("\n  Nearest passages, which may not answer the question:")
	}
	for i, c := range a.Citations {
		title := c.Document
		if c.Title != "" && c.Title != c.Document {
			title = c.Title + " (" + c.Document + ")"
		}
		fmt.Printf("\n  [%d] %s, %s\n", i+1, printable(title), printable(c.Location))
		indent(os.Stdout, "      | ", c.Quote, 92)
		if c.Answer.Text != "" {
			fmt.Printf("      = %s (confidence %.2f)\n", printable(c.Answer.Text), c.Answer.Confidence)
		} else if c.Answer.Confidence > 0 {
			fmt.Printf("      (confidence %.2f)\n", c.Answer.Confidence)
		}
	}
}

type jobsCommand struct {
	List   jobsList   `cmd:"" help:"List jobs, newest first."`
	Show   jobsShow   `cmd:"" help:"Show a job and its result."`
	Cancel jobsCancel `cmd:"" help:"Cancel a job."`
}

type jobsList struct {
	remote
	Limit int `default:"50" help:"How many; 0 is all."`
}

func (l *jobsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	jobs, err := c.Jobs(ctx, l.Limit)
	if err != nil {
		return err
	}
	return printList(l.JSON, func(yield func(schema.Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}, "ID STATE CREATED QUESTION", func(j schema.Job) []any {
		return []any{j.ID, j.State, j.CreatedAt.Local().Format(time.DateTime), j.Question}
	})
}

type jobArg struct {
	remote
	Job string `arg:"" help:"The job's id."`
}

func (o jobArg) do(ctx context.Context, call func(*apiclient.Client, context.Context, uuid.UUID) (schema.Job, error)) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	id, err := schema.ParseID("job", o.Job)
	if err != nil {
		return err
	}
	job, err := call(c, ctx, id)
	if err != nil {
		return err
	}
	return printJob(job, o.JSON)
}

type jobsShow struct{ jobArg }

func (s *jobsShow) Run(ctx context.Context) error { return s.do(ctx, (*apiclient.Client).Job) }

type jobsCancel struct{ jobArg }

func (s *jobsCancel) Run(ctx context.Context) error { return s.do(ctx, (*apiclient.Client).CancelJob) }

func printJob(j schema.Job, asJSON bool) error {
	if asJSON {
		return printJSON(j)
	}
	fmt.Printf("%s  %s", j.ID, j.State)
	if j.Stage != "" && !j.State.Final() {
		fmt.Printf("  (%s)", j.Stage)
	}
	fmt.Printf("  %s\n", printable(j.Question))
	if j.Reason != nil {
		fmt.Printf("  %s: %s\n", j.Reason.Code, printable(j.Reason.Message))
	}
	if j.Result != nil {
		printAnswer(*j.Result, j.Choices)
	}
	return nil
}
