// Package httpapi serves the HTTP API under /v1: OpenAPI 3.1 at /openapi.json,
// a page to read it at /docs/api, errors as application/problem+json, API keys,
// idempotency keys on POST and cursors on lists. Its state is behind the
// interfaces of ports.go.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/sluice-rag/sluice/schema"
)

// Options of the API.
type Options struct {
	Version string
	AskTime time.Duration // of a search or a synchronous question; 0: 2 minutes
	// TenantOpen is the most searches and synchronous questions of one tenant that are open at
	// once; 0: 32.
	TenantOpen int
	// KeyRequests and TenantRequests are the most requests of one key, and of one tenant, in a
	// minute; 0: no limit.
	KeyRequests, TenantRequests int
	// TenantStreams is the most streams of jobs and events of one tenant that are open at once; 0:
	// 250.
	TenantStreams int
	// Heartbeat is the interval of heartbeats in streams of events; 0: 15 seconds.
	Heartbeat time.Duration

	// Stopping is closed to end streams and synchronous questions when the server stops; nil: it
	// never is.
	Stopping <-chan struct{}

	Authenticator Authenticator
	Permissions   Permissions // nil: sources have none
	Sessions      Sessions    // nil: browsers cannot have any
	SignIns       SignIns     // nil: people sign in only with API keys

	PeopleSessions PeopleSessions
	Collections    Collections
	Rebuilds       Rebuilds
	Reparses       Reparses
	Documents      Documents
	Questions      Questions
	Receipts       Receipts
	Plans          Plans
	Preferences    Preferences
	PlanChoices    PlanChoices
	Webhooks       Webhooks
	SyncSources    SyncSources
	SourceAccess   SourceAccess
	Evaluations    Evaluations
	Judge          Judge
	Ratings        Ratings
	Tenants        Tenants
	Audit          AuditLog
	Operations     Operations
	Events         Events
	Idempotency    Idempotency
	// Standalone rewrites a question that refers to earlier turns of a conversation; nil: questions
	// are not rewritten.
	Standalone func(history []schema.Turn, question string) (standalone string, changed bool)
	// Record records a request that read something, or was refused, for the audit log. It does not
	// block; nil: none is recorded.
	Record func(tenant uuid.UUID, r schema.AuditRead)
	// TrustedProxies are the proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// TraceURL is the address of a trace in the tracing system, with {trace} for its id; empty:
	// there is none.
	TraceURL string
	// Ready returns why the server cannot serve now, or nil.
	Ready func(context.Context) error
	// Degraded returns what does not work while the rest does; empty: all works. nil: it is not
	// known.
	Degraded func(context.Context) string
}

type server struct {
	Options
	api           huma.API
	openQuestions *admission // searches and synchronous questions
	openStreams   *admission // streams of jobs and events

	keyRate, tenantRate *rateLimiter

	ended endedSessions

	uploads  *admission
	decoding chan struct{} // a slot for each batch that is being decoded
}

// New returns the handler of the whole API.
func New(o Options) http.Handler {
	s, mux := newServer(o)
	mux.HandleFunc("GET /docs/api", docsPage)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { notFound(mux, w, r) })
	return otelhttp.NewHandler(recovered(logged(mux)), "http",
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			if r.Pattern != "" {
				return r.Pattern
			}
			return r.Method
		}),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/healthz" && r.URL.Path != "/readyz"
		}))
}

// newServer registers all routes with mux.
func newServer(o Options) (*server, *http.ServeMux) {
	if o.AskTime <= 0 {
		o.AskTime = 2 * time.Minute
	}
	if o.TenantOpen <= 0 {
		o.TenantOpen = defaultTenantOpen
	}
	if o.TenantStreams <= 0 {
		o.TenantStreams = defaultTenantStreams
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = defaultHeartbeat
	}
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Sluice", o.Version)
	config.Info.Description = "Ingest documents, search them, and get answers with citations.\n\n" +
		"Send an API key as `Authorization: Bearer <key>`. Errors are `application/problem+json`. " +
		"A POST with an `Idempotency-Key` header acts once, however often the same key sends it, for a day; " +
		"those that change nothing, `/v1/ask` and `/v1/chat/completions`, run again. " +
		"Lists return a cursor, `next`, while there is more."
	config.DocsPath = "" // the built-in page loads scripts from elsewhere
	config.SchemasPath = ""
	config.CreateHooks = nil
	config.Transformers = []huma.Transformer{bounded, chatErrors}
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"key": {}}}
	s := &server{Options: o, api: humago.New(mux, config), openQuestions: newAdmission(o.TenantOpen, "searches and questions of this tenant are in progress, which is the limit; try again when one has been answered"),
		openStreams: newAdmission(o.TenantStreams, "streams of jobs and events of this tenant are open, which is the limit; try again when one has ended")}
	s.keyRate, s.tenantRate = newRateLimiter(o.KeyRequests, "key"), newRateLimiter(o.TenantRequests, "tenant")
	s.uploads, s.decoding = newUploads(), make(chan struct{}, maxDecoders)
	s.api.UseMiddleware(s.audited, s.authenticate, s.upload, s.readFirst, s.idempotent)

	s.routeCollections()
	s.routeRebuilds()
	s.routeReparses()
	s.routeDocuments()
	s.routeUploads()
	s.routeQuestions()
	s.routeChat()
	s.routeReceipts()
	s.routePlans()
	s.routePreferences()
	s.routePlanChoices()
	s.routeEvaluations()
	s.routeJudgements()
	s.routeRatings()
	s.routeWebhooks()
	s.routeSyncSources()
	s.routeSourceAccess()
	s.routeTenants()
	s.routeOperations()
	s.routeSessions()
	s.routeSignIns()
	s.routePeopleSessions()
	addSamples(s.api.OpenAPI())
	return s, mux
}

// notFound answers requests that no route matches: the path is unknown, or has other methods.
func notFound(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	if len(methods) == 0 {
		writeProblem(w, http.StatusNotFound, "there is no "+cut(r.URL.Path, 200)+"; /docs/api lists the operations")
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	writeProblem(w, http.StatusMethodNotAllowed, cut(r.URL.Path, 200)+" takes "+allowed)
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	if s.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			slog.WarnContext(ctx, "the API is not ready", "error", err)
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusServiceUnavailable, "a part of the server does not answer; the server's log says which")
			return
		}
	}
	if s.Degraded != nil {
		if missing := s.Degraded(r.Context()); missing != "" {
			writeText(w, http.StatusOK, "ready, without "+missing+"\n")
			return
		}
	}
	writeText(w, http.StatusOK, "ready\n")
}

// route registers an operation. The handler gets the caller; scope is the scope that keys need,
// empty for any.
func route[In, Out any](s *server, op huma.Operation, scope schema.Scope, handle func(context.Context, schema.Principal, *In) (*Out, error)) {
	if op.DefaultStatus == 0 {
		op.DefaultStatus = http.StatusOK
	}
	op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[scopeKey] = scope
	limited(&op)
	if scope == schema.ScopeQuery {
		op.Parameters = append(op.Parameters, personParameters()...)
	}
	if repeatable(&op) {
		op.Parameters = append(op.Parameters, keyParameter)
	}
	if scope != "" {
		op.Description += "\n\nNeeds the `" + string(scope) + "` scope."
	}
	huma.Register(s.api, op, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, caller(ctx), in)
		if err != nil {
			return nil, problem(ctx, err)
		}
		return out, nil
	})
}
