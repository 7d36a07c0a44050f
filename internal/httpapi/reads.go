package httpapi

// Takes note of who read what: of the operations below, however they end, and of every
// request that is refused.

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

// recorded are the operations that show text of documents, questions or answers, or the names of
// documents, and those that change who may see them. A test demands that each of the API is here,
// or in its list of those that do neither.
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

// targets are the path parameters that say what an operation is about, the narrowest first.
var targets = []string{"document", "question", "job", "key", "session", "delivery", "webhook", "evaluation", "source", "plan", "tenant"}

// What is kept of texts that clients choose, in bytes. A question has its own limit.
const (
	recordedText      = 512
	recordedDocuments = 500
)

// record is what is noted of one request.
type record struct {
	schema.AuditRead
	tenant uuid.UUID
}

type (
	recordKey struct{}
	viaKey    struct{}
)

// Via says in the audit log of reads what requests under a context came through.
func Via(ctx context.Context, what string) context.Context {
	return context.WithValue(ctx, viaKey{}, what)
}

// recordOf returns what is noted of the request; what nobody notes is noted nowhere.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// by notes who calls.
func (r *record) by(p schema.Principal) {
	if p.Tenant == uuid.Nil {
		return
	}
	r.tenant, r.KeyName, r.Person = p.Tenant, p.Name, p.Person
	if p.Key != uuid.Nil {
		r.Key = &p.Key
	}
}

// asked notes a question to a collection.
func (r *record) asked(collection uuid.UUID, text string) {
	r.Collection, r.Query = collection.String(), text
}

// showed notes that a document was shown.
func (r *record) showed(id uuid.UUID) {
	if len(r.Documents) < recordedDocuments && id != uuid.Nil && !slices.Contains(r.Documents, id) {
		r.Documents = append(r.Documents, id)
	}
}

// answered notes an answer and what it cites.
func (r *record) answered(a *schema.Answer) {
	if a == nil || a.Withheld {
		return
	}
	for _, c := range a.Citations {
		r.showed(c.DocumentID)
	}
}

// addAnswer notes the answer to a question that was waited for.
func (r *record) addAnswer(a schema.Answer) {
	if a.ID != uuid.Nil {
		r.Target = a.ID.String()
	}
	r.answered(&a)
}

// audited notes a request when it is over.
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

// clean is a text of a client as it can be kept.
func clean(text string) string {
	return unzeroed(text[:min(len(text), recordedText)])
}

func unzeroed(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

// clientAddress is where a request comes from: the last address in X-Forwarded-For that
// is not a trusted proxy's, when all that sent it on are.
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
