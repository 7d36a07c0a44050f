package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Streams.
const (
	// StreamIngest is the work queue of versions to ingest.
	StreamIngest = "SLUICE_INGEST"
	// StreamQuestions is the work queue of asynchronous questions.
	StreamQuestions = "SLUICE_QUESTIONS"
	// StreamEvents keeps state changes for a while for whoever listens.
	StreamEvents = "SLUICE_EVENTS"
)

// Durable consumers.
const (
	ConsumerIngest    = "ingest-workers"
	ConsumerQuestions = "query-workers"
)

// Subject patterns of the streams and of the request/reply services.
const (
	IngestSubjects    = "sluice.ingest.*"
	QuestionsSubjects = "sluice.questions.*"
	EventsSubjects    = "sluice.events.>"

	SearchSubject = "sluice.query.search"
	AskSubject    = "sluice.query.ask"
	LabelSubject  = "sluice.query.label"
	JudgeSubject  = "sluice.query.judge"
	LLMSubject    = "sluice.llm.complete"
	// RemoteEncodeSubject is where the model server asks for vectors by a model behind an API.
	RemoteEncodeSubject = "sluice.llm.encode"
	// RemoteRerankSubject is the same for scores of texts.
	RemoteRerankSubject = "sluice.llm.rerank"

	// OutboxSubject is where those who wrote messages into the outbox say so, without a
	// body, when they have committed them.
	OutboxSubject = "sluice.outbox"

	// SearchingSubject is where query workers say now and then, as Searching, that
	// somebody searches.
	SearchingSubject = "sluice.query.searching"

	// HereSubject is where workers with subjects of their own say, as Here, that they
	// are there.
	HereSubject = "sluice.here"

	// ChangedSubject is where servers of the API say, as Changed, what others may
	// remember and is no longer so.
	ChangedSubject = "sluice.changed"
)

// CancelSubject is where callers of a service say, as Cancel, that they want the reply to a request
// no more. All who run the service listen, and whoever holds the request gives it up. It is empty
// for services that finish what they began.
func CancelSubject(service string) string {
	service, _, _ = strings.Cut(service, atWorker)
	switch service {
	case SearchSubject, AskSubject, LabelSubject, JudgeSubject, LLMSubject, SourcePreviewSubject:
		return service + ".cancel"
	}
	return ""
}

// atWorker stands in a worker's own subject of a service.
const atWorker = ".at."

// AtWorker is where one worker answers a service, beside the subject that it shares with
// others.
func AtWorker(service string, worker uuid.UUID) string { return service + atWorker + worker.String() }

// Queue groups of the services.
const (
	QueryGroup = "query-workers"
	ModelGroup = "model-servers"
	LLMGroup   = "llm-gateways"
	RelayGroup = "relays"
)

// IngestSubject is where a tenant's versions are queued: one subject per
// tenant, so that a flood bounds itself.
func IngestSubject(tenant uuid.UUID) string { return "sluice.ingest." + checkTenant(tenant) }

// QuestionsSubject is where a tenant's asynchronous questions are queued.
func QuestionsSubject(tenant uuid.UUID) string { return "sluice.questions." + checkTenant(tenant) }

// EventSubject is where an event of a kind ("version.ready") is published.
func EventSubject(tenant uuid.UUID, kind string) string {
	if kind == "" || strings.ContainsAny(kind, " *>\t\r\n") {
		panic(fmt.Sprintf("wire: bad event kind %q", kind))
	}
	return "sluice.events." + checkTenant(tenant) + "." + kind
}

// inboxPrefix begins the subjects that NATS makes for replies.
const inboxPrefix = "_INBOX."

// IsInbox reports whether a subject that came in a request is an inbox of whoever
// sent it, and nothing that others listen to.
func IsInbox(subject string) bool {
	return strings.HasPrefix(subject, inboxPrefix) && len(subject) > len(inboxPrefix) && len(subject) <= 256 &&
		!strings.HasSuffix(subject, ".") && !strings.Contains(subject, "..") &&
		!strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' || r == '>' })
}

// IngestMessageID is the message id of a version's attempt. JetStream swallows
// a repeated id within its duplicate window, so the attempt rises in the
// transaction that queues.
func IngestMessageID(version uuid.UUID, attempt int) string {
	return fmt.Sprintf("%s.%d", version, attempt)
}

// Task queues.
const (
	TaskQueueIngest    = "sluice-ingest"
	TaskQueueQuestions = "sluice-questions"
	TaskQueueCurate    = "sluice-curate"
	TaskQueueVectors   = "sluice-vectors"
	TaskQueueReparse   = "sluice-reparse"
	TaskQueueChoices   = "sluice-choices"
	TaskQueueSources   = "sluice-sources"
)

// BatchWorkflowID is the workflow id of a batch: a hash of its sorted message
// ids, so that a redelivered batch meets its running workflow.
func BatchWorkflowID(messageIDs []string) string {
	sorted := slices.Clone(messageIDs)
	slices.Sort(sorted)
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return "ingest-" + hex.EncodeToString(sum[:16])
}

// QuestionWorkflowID is the workflow id of an asynchronous question's attempt.
func QuestionWorkflowID(question uuid.UUID, attempt int) string {
	return fmt.Sprintf("question-%s.%d", question, attempt)
}
