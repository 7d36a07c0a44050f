package httpapi

// The audit log of reads: records the operations below, whatever their outcome, and every refused
// request.

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
)

// recorded lists the operations that show text of documents, questions or answers, or names of
// documents, and those that change who may see them. A test requires each operation of the API to
// be here or in its own list of all others.
var recorded = []string{
	"search", "ask", "create-chat-completion", "start-job", "get-job", "follow-job", "list-jobs", "cancel-job",
	"get-question", "list-questions", "get-receipt", "list-ratings", "list-plan-choice-questions", "get-evaluation", "compare-evaluations",
	"list-documents", "get-document", "list-sections", "get-place", "get-content",
	"preview-source", "list-source-items", "list-source-skipped",
	"begin-session", "end-session", "complete-oidc", "end-person-session",
	"create-key", "rotate-key", "revoke-key", "revoke-tenant-key", "create-tenant", "change-document", "create-source", "change-source", "delete-source",
	"map-principal", "unmap-principal", "push-access", "explain-access",
	"create-webhook", "rotate-webhook", "delete-webhook",
	"list-audit", "list-audit-reads", "export-audit", "verify-audit",
}

// targets are the path parameters that name an operation's subject, the narrowest first.
var targets = []string{"document", "question", "job", "key", "session", "delivery", "webhook", "evaluation", "source", "plan", "tenant"}

// Limits of what is recorded. A question has its own limit.
const (
	recordedText      = 512
	recordedDocuments = 500
)

// record is the audit entry of one request.
type record struct {
	schema.AuditRead
	tenant uuid.UUID
}

type (
	recordKey struct{}
	viaKey    struct{}
)

// Via records in the audit log of reads what requests under ctx came through.
func Via(ctx context.Context, what string) context.Context {
	return context.WithValue(ctx, viaKey{}, what)
}

// recordOf returns the record of a request, or one that is discarded if the request has none.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// by records the caller.
func (r *record) by(p schema.Principal) {
	if p.Tenant == uuid.Nil {
		return
	}
	r.tenant, r.KeyName, r.Person = p.Tenant, p.Name, p.Person
	if p.Key != uuid.Nil {
		r.Key = &p.Key
	}
}

// asked records a question to a collection.
func (r *record) asked(collection uuid.UUID, text string) {
	r.Collection, r.Query = collection.String(), text
}

// showed records that a document was shown.
func (r *record) showed(id uuid.UUID) {
	if len(r.Documents) < recordedDocuments && id != uuid.Nil && !slices.Contains(r.Documents, id) {
		r.Documents = append(r.Documents, id)
	}
}

// answered records an answer and the documents that it cites.
func (r *record) answered(a *schema.Answer) {
	if a == nil || a.Withheld {
		return
	}
	for _, c := range a.Citations {
		r.showed(c.DocumentID)
	}
}

// addAnswer records the answer to a synchronous question.
func (r *record) addAnswer(a schema.Answer) {
	if a.ID != uuid.Nil {
		r.Target = a.ID.String()
	}
	r.answered(&a)
}

// audited records a request when it has ended.
func (s *server) audited(ctx huma.Context, next func(huma.Context)) {
	if s.Record == nil {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	note := &record{tenant: schema.Nobody, AuditRead: schema.AuditRead{ID: schema.NewID(), At: time.Now().Truncate(time.Microsecond),
		Action: ctx.Operation().OperationID, Address: clean(s.clientAddress(r)), Agent: clean(r.UserAgent())}}
	if span := trace.SpanContextFromContext(ctx.Context()); span.HasTraceID() {
		note.Trace = span.TraceID().String()
	}
	note.Via, _ = ctx.Context().Value(viaKey{}).(string)
	next(huma.WithValue(ctx, recordKey{}, note))
	note.Status = http.StatusOK
	if sent, ok := w.(*statusWriter); ok && sent.status != 0 {
		note.Status = sent.status
	}
	refused := note.Status == http.StatusUnauthorized || note.Status == http.StatusForbidden || note.Status == http.StatusNotFound
	if !refused && !slices.Contains(recorded, note.Action) {
		return
	}
	if note.Collection == "" {
		note.Collection = clean(r.PathValue("collection"))
	}
	for _, name := range targets {
		if id := r.PathValue(name); id != "" {
			note.Target = clean(id)
			if _, err := uuid.Parse(id); err == nil && name == "document" && !refused {
				note.showed(uuid.MustParse(id))
			}
			break
		}
	}
	note.Person, note.KeyName, note.Query = strings.ToValidUTF8(note.Person, ""), strings.ToValidUTF8(note.KeyName, ""), unzeroed(note.Query)
	s.Record(note.tenant, note.AuditRead)
}

// clean returns a client's text without invalid bytes, cut to recordedText bytes.
func clean(text string) string {
	return unzeroed(text[:min(len(text), recordedText)])
}

func unzeroed(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

// clientAddress returns the address that a request comes from: the last one in X-Forwarded-For that
// is not a trusted proxy's, if all proxies after it are trusted.
func (s *server) clientAddress(r *http.Request) string {
	at := addressOf(r)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusted(at) {
			break
		}
		hop = strings.TrimSpace(hop)
		if host, _, err := net.SplitHostPort(hop); err == nil {
			hop = host
		}
		a, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil {
			break
		}
		at = a.Unmap().String()
	}
	return at
}

func (s *server) trusted(address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	return schema.InRanges(a, s.TrustedProxies)
}
