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
	// StreamEvents keeps state changes for a while for its subscribers.
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
	// RemoteEncodeSubject is where the model server asks the gateway for vectors of a model behind
	// an API.
	RemoteEncodeSubject = "sluice.llm.encode"
	// RemoteRerankSubject is the same for scores of texts.
	RemoteRerankSubject = "sluice.llm.rerank"

	// OutboxSubject is where programs signal, without a body, that they committed messages to the
	// outbox.
	OutboxSubject = "sluice.outbox"

	// SearchingSubject is where query workers report now and then, as Searching, that somebody
	// searches.
	SearchingSubject = "sluice.query.searching"

	// WorkersSubject is where workers with subjects of their own announce themselves by a
	// WorkerAnnouncement.
	WorkersSubject = "sluice.here"

	// ChangedSubject is where API servers report, as Changed, data that others may have cached and
	// that has changed.
	ChangedSubject = "sluice.changed"
)

// CancelSubject returns the subject at which callers of a service cancel a request, as Cancel. All
// workers of the service subscribe to it, and the one that holds the request stops. It is empty for
// services that always finish.
func CancelSubject(service string) string {
	service, _, _ = strings.Cut(service, atWorker)
	switch service {
	case SearchSubject, AskSubject, LabelSubject, JudgeSubject, LLMSubject, SourcePreviewSubject:
		return service + ".cancel"
	}
	return ""
}

// atWorker is the part of a worker's own subject after the service's.
const atWorker = ".at."

// AtWorker returns the subject at which one worker answers a service, besides the subject that it
// shares with others.
func AtWorker(service string, worker uuid.UUID) string { return service + atWorker + worker.String() }

// Queue groups of the services.
const (
	QueryGroup = "query-workers"
	ModelGroup = "model-servers"
	LLMGroup   = "llm-gateways"
	RelayGroup = "relays"
)

// IngestSubject returns the subject at which a tenant's versions are queued: one subject per
// tenant, so that limits apply to each tenant separately.
func IngestSubject(tenant uuid.UUID) string { return "sluice.ingest." + checkTenant(tenant) }

// QuestionsSubject returns the subject at which a tenant's asynchronous questions are queued.
func QuestionsSubject(tenant uuid.UUID) string { return "sluice.questions." + checkTenant(tenant) }

// EventSubject returns the subject of an event of a kind ("version.ready").
func EventSubject(tenant uuid.UUID, kind string) string {
	if kind == "" || strings.ContainsAny(kind, " *>\t\r\n") {
		panic(fmt.Sprintf("wire: bad event kind %q", kind))
	}
	return "sluice.events." + checkTenant(tenant) + "." + kind
}

// inboxPrefix begins the subjects that NATS creates for replies.
const inboxPrefix = "_INBOX."

// IsInbox reports whether a subject in a request is an inbox of the sender, and not a subject that
// others subscribe to.
func IsInbox(subject string) bool {
	return strings.HasPrefix(subject, inboxPrefix) && len(subject) > len(inboxPrefix) && len(subject) <= 256 &&
		!strings.HasSuffix(subject, ".") && !strings.Contains(subject, "..") &&
		!strings.ContainsFunc(subject, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' || r == '>' })
}

// IngestMessageID returns the message id of a version's attempt. JetStream drops a repeated id
// within its duplicate window, so the transaction that queues a version increments the attempt.
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

// BatchWorkflowID returns the workflow id of a batch: a hash of its sorted message ids, so that a
// redelivered batch finds its running workflow.
func BatchWorkflowID(messageIDs []string) string {
	sorted := slices.Clone(messageIDs)
	slices.Sort(sorted)
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return "ingest-" + hex.EncodeToString(sum[:16])
}

// QuestionWorkflowID returns the workflow id of an asynchronous question's attempt.
func QuestionWorkflowID(question uuid.UUID, attempt int) string {
	return fmt.Sprintf("question-%s.%d", question, attempt)
}
