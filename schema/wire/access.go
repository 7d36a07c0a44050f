package wire

// Permissions of the programs on NATS. Each program connects with its own credentials, and the NATS
// server refuses subjects that are not listed here: its configuration is generated from this table.

import "slices"

// Program is a program that connects to NATS.
type Program string

// Programs that exist.
const (
	ProgramServe        Program = "serve"
	ProgramIngestWorker Program = "ingest-worker"
	ProgramQueryWorker  Program = "query-worker"
	ProgramLLMGateway   Program = "llm-gateway"
	ProgramGPUSegmenter Program = "gpu-segmenter"
	// ProgramSourceWorker is a program in a Go module of its own.
	ProgramSourceWorker Program = "source-worker"
	// ProgramUp is `sluice up` with a NATS server that others run: all of the above in one process.
	ProgramUp Program = "up"
)

// Programs returns all programs.
func Programs() []Program {
	return []Program{ProgramServe, ProgramIngestWorker, ProgramQueryWorker, ProgramLLMGateway, ProgramGPUSegmenter, ProgramSourceWorker, ProgramUp}
}

// Signers returns the programs that may make requests to a service on behalf of a tenant, and so
// sign them: those that authenticate people by their keys, or own the tenant's jobs.
func Signers(service string) []Program {
	switch service {
	case SearchSubject, AskSubject, LabelSubject, JudgeSubject, SourcePreviewSubject:
		return []Program{ProgramServe, ProgramUp}
	case LLMSubject:
		return []Program{ProgramQueryWorker, ProgramUp}
	}
	return nil
}

// Inbox returns the prefix of the subjects at which a program receives replies. Each program has
// its own, so that none can read another's.
func (p Program) Inbox() string { return inboxPrefix + string(p) }

// Access is what a program may publish to and subscribe to: patterns of subjects.
type Access struct{ Publish, Subscribe []string }

// programSubjects is what a program sends and receives.
type programSubjects struct {
	requests   []string // requests that it sends; replies come to its inbox
	serves     []string // requests that it receives and replies to, at the sender's inbox
	streams    []string // requests to other services, to whose senders' inboxes it sends progress
	publishes  []string
	subscribes []string
}

var (
	modelSubjects = subjectsOf(modelOperations)
	allStreams    = []string{StreamIngest, StreamQuestions, StreamEvents}
)

const (
	stages = "sluice.query.stage.*.*"
	texts  = "sluice.query.text.*.*"

	searchAtWorkers = SearchSubject + atWorker + "*"
	askAtWorkers    = AskSubject + atWorker + "*"
)

// subjectsByProgram is the table of permissions. JetStream's API subjects are listed like all
// others.
var subjectsByProgram = map[Program]programSubjects{
	ProgramServe: {
		// The model servers' info is for `sluice doctor`, which runs with these credentials.
		requests: slices.Concat([]string{SearchSubject, searchAtWorkers, AskSubject, askAtWorkers, LabelSubject, JudgeSubject, SourcePreviewSubject, StatusSubject, ModelSubject(OpInfo), SecondModelSubject(OpInfo)}, jetstreamOf("STREAM.INFO", "CONSUMER.LIST")),
		publishes: []string{CancelSubject(SearchSubject), CancelSubject(AskSubject), CancelSubject(LabelSubject), CancelSubject(JudgeSubject), CancelSubject(SourcePreviewSubject), ChangedSubject,
			OutboxSubject},
		subscribes: []string{EventsSubjects, stages, texts, ChangedSubject, WorkersSubject},
	},
	ProgramIngestWorker: {
		requests: slices.Concat(modelSubjects, []string{IngestSubjects, QuestionsSubjects, EventsSubjects},
			jetstreamOf("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE"), workQueueSubjects(StreamIngest, ConsumerIngest)),
		publishes:  []string{OutboxSubject},
		subscribes: []string{SearchingSubject, OutboxSubject},
	},
	ProgramQueryWorker: {
		requests: slices.Concat(modelSubjects, []string{LLMSubject},
			jetstreamOf("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE"), workQueueSubjects(StreamQuestions, ConsumerQuestions)),
		serves:     []string{SearchSubject, searchAtWorkers, AskSubject, askAtWorkers, LabelSubject, JudgeSubject, StatusSubject},
		publishes:  []string{CancelSubject(LLMSubject), SearchingSubject, WorkersSubject, stages, texts, OutboxSubject},
		subscribes: []string{CancelSubject(SearchSubject), CancelSubject(AskSubject), CancelSubject(LabelSubject), CancelSubject(JudgeSubject), QuestionEvents(EventQuestionCancelled)},
	},
	ProgramLLMGateway: {
		requests:   modelSubjects,
		serves:     []string{LLMSubject, RemoteEncodeSubject, RemoteRerankSubject, StatusSubject},
		streams:    []string{AskSubject, askAtWorkers}, // the text of an answer goes to the caller that waits for it
		subscribes: []string{CancelSubject(LLMSubject)},
	},
	ProgramSourceWorker: {
		serves:     []string{SourcePreviewSubject, StatusSubject},
		publishes:  []string{OutboxSubject},
		subscribes: []string{CancelSubject(SourcePreviewSubject)},
	},
	ProgramGPUSegmenter: {
		requests: []string{RemoteEncodeSubject, RemoteRerankSubject},
		serves:   append([]string{StatusSubject}, modelSubjects...),
	},
}

func init() {
	var all programSubjects
	for _, p := range Programs() {
		t := subjectsByProgram[p]
		all.requests, all.serves, all.streams = append(all.requests, t.requests...), append(all.serves, t.serves...), append(all.streams, t.streams...)
		all.publishes, all.subscribes = append(all.publishes, t.publishes...), append(all.subscribes, t.subscribes...)
	}
	subjectsByProgram[ProgramUp] = all
}

func subjectsOf(operations []ModelOperation) (subjects []string) {
	for _, o := range operations {
		if o.Of == "" {
			subjects = append(subjects, ModelSubject(o.Name))
		}
		if o.Second {
			subjects = append(subjects, SecondModelSubject(o.Name))
		}
	}
	return subjects
}

// jetstreamOf returns the subjects of requests about each of the streams.
func jetstreamOf(requests ...string) (out []string) {
	for _, r := range requests {
		for _, stream := range allStreams {
			out = append(out, "$JS.API."+r+"."+stream)
		}
	}
	return out
}

// workQueueSubjects returns the subjects at which a worker makes requests to consume a work queue.
func workQueueSubjects(stream, consumer string) []string {
	of := stream + "." + consumer
	return []string{"$JS.API.CONSUMER.CREATE." + of, "$JS.API.CONSUMER.INFO." + of, "$JS.API.CONSUMER.MSG.NEXT." + of,
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.ACK." + of + ".>"}
}

// AccessOf returns the permissions of a program. It panics if the program is not in the table.
func AccessOf(p Program) Access {
	t, ok := subjectsByProgram[p]
	if !ok {
		panic("wire: no program " + string(p))
	}
	a := Access{Publish: slices.Concat(t.requests, t.publishes), Subscribe: slices.Concat(t.serves, t.subscribes, []string{p.Inbox() + ".>"})}
	for _, q := range Programs() {
		requests := func(subject string) bool { return slices.Contains(subjectsByProgram[q].requests, subject) }
		if slices.ContainsFunc(t.serves, requests) || slices.ContainsFunc(t.streams, requests) {
			a.Publish = append(a.Publish, q.Inbox()+".>")
		}
	}
	for _, list := range []*[]string{&a.Publish, &a.Subscribe} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return a
}
