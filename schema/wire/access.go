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

// traffic is what a program sends and receives.
type traffic struct {
	asks    []string // requests that it sends; replies come to its inbox
	answers []string // requests that it receives and replies to, at the sender's inbox
	streams []string // requests to other services, to whose senders' inboxes it sends progress
	tells   []string
	hears   []string
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

// traffics is the table of permissions. JetStream's API subjects are listed like all others.
var traffics = map[Program]traffic{
	ProgramServe: {
		// The model servers' info is for `sluice doctor`, which runs with these credentials.
		asks: slices.Concat([]string{SearchSubject, searchAtWorkers, AskSubject, askAtWorkers, LabelSubject, JudgeSubject, SourcePreviewSubject, StatusSubject, ModelSubject(OpInfo), SecondModelSubject(OpInfo)}, jetstreamOf("STREAM.INFO", "CONSUMER.LIST")),
		tells: []string{CancelSubject(SearchSubject), CancelSubject(AskSubject), CancelSubject(LabelSubject), CancelSubject(JudgeSubject), CancelSubject(SourcePreviewSubject), ChangedSubject,
			OutboxSubject},
		hears: []string{EventsSubjects, stages, texts, ChangedSubject, HereSubject},
	},
	ProgramIngestWorker: {
		asks: slices.Concat(modelSubjects, []string{IngestSubjects, QuestionsSubjects, EventsSubjects},
			jetstreamOf("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE"), worksOn(StreamIngest, ConsumerIngest)),
		tells: []string{OutboxSubject},
		hears: []string{SearchingSubject, OutboxSubject},
	},
	ProgramQueryWorker: {
		asks: slices.Concat(modelSubjects, []string{LLMSubject},
			jetstreamOf("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE"), worksOn(StreamQuestions, ConsumerQuestions)),
		answers: []string{SearchSubject, searchAtWorkers, AskSubject, askAtWorkers, LabelSubject, JudgeSubject, StatusSubject},
		tells:   []string{CancelSubject(LLMSubject), SearchingSubject, HereSubject, stages, texts, OutboxSubject},
		hears:   []string{CancelSubject(SearchSubject), CancelSubject(AskSubject), CancelSubject(LabelSubject), CancelSubject(JudgeSubject), QuestionEvents(EventQuestionCancelled)},
	},
	ProgramLLMGateway: {
		asks:    modelSubjects,
		answers: []string{LLMSubject, RemoteEncodeSubject, RemoteRerankSubject, StatusSubject},
		streams: []string{AskSubject, askAtWorkers}, // the text of an answer goes to the caller that waits for it
		hears:   []string{CancelSubject(LLMSubject)},
	},
	ProgramSourceWorker: {
		answers: []string{SourcePreviewSubject, StatusSubject},
		tells:   []string{OutboxSubject},
		hears:   []string{CancelSubject(SourcePreviewSubject)},
	},
	ProgramGPUSegmenter: {
		asks:    []string{RemoteEncodeSubject, RemoteRerankSubject},
		answers: append([]string{StatusSubject}, modelSubjects...),
	},
}

func init() {
	var all traffic
	for _, p := range Programs() {
		t := traffics[p]
		all.asks, all.answers, all.streams = append(all.asks, t.asks...), append(all.answers, t.answers...), append(all.streams, t.streams...)
		all.tells, all.hears = append(all.tells, t.tells...), append(all.hears, t.hears...)
	}
	traffics[ProgramUp] = all
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

// worksOn returns the subjects at which a worker makes requests to consume a work queue.
func worksOn(stream, consumer string) []string {
	of := stream + "." + consumer
	return []string{"$JS.API.CONSUMER.CREATE." + of, "$JS.API.CONSUMER.INFO." + of, "$JS.API.CONSUMER.MSG.NEXT." + of,
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.ACK." + of + ".>"}
}

// AccessOf returns the permissions of a program. It panics if the program is not in the table.
func AccessOf(p Program) Access {
	t, ok := traffics[p]
	if !ok {
		panic("wire: no program " + string(p))
	}
	a := Access{Publish: slices.Concat(t.asks, t.tells), Subscribe: slices.Concat(t.answers, t.hears, []string{p.Inbox() + ".>"})}
	for _, q := range Programs() {
		asks := func(subject string) bool { return slices.Contains(traffics[q].asks, subject) }
		if slices.ContainsFunc(t.answers, asks) || slices.ContainsFunc(t.streams, asks) {
			a.Publish = append(a.Publish, q.Inbox()+".>")
		}
	}
	for _, list := range []*[]string{&a.Publish, &a.Subscribe} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return a
}
