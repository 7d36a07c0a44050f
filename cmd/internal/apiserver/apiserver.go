// Package apiserver puts the HTTP API together: `sluice serve` runs it alone,
// `sluice up` beside everything else.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/cmd/internal/httpserver"
	"github.com/sluice-rag/sluice/cmd/internal/mcpserver"
	"github.com/sluice-rag/sluice/cmd/internal/queryworker"
	"github.com/sluice-rag/sluice/docs"
	"github.com/sluice-rag/sluice/internal/audit"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/conversation"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/manual"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/web"
)

// Deps are what the API stands on; they stay the caller's.
type Deps struct {
	Store  *store.Store
	NATS   *nats.Conn
	Signer *signature.Signer // of requests that speak for a tenant; nil: they are not signed
	// Receipts signs those of answers; nil: there are none.
	Receipts *receipt.Signer
	// SourceKeys encrypt secrets of sources; without any, sources with secrets are refused.
	SourceKeys seal.Keys
	Version    string
	Plans      config.Plans // those of the query workers

	OIDC      config.OIDC // where people sign in; without an issuer: nowhere
	PublicURL string      // where people reach the API; empty: where their browser found it

	Temporal  client.Client // whose task queues are shown; nil: none
	Namespace string        // of theirs

	// Room says why nothing may be uploaded now, a schema.ErrStorageFull; nil: never.
	Room func() error
	// Ready says why this server cannot do its work, beside the database and NATS;
	// nil: it can.
	Ready func() error

	// Remember is how long collections and plans are remembered, where another server of
	// the API does not say that they have changed; 0: 3 s.
	Remember      time.Duration
	BodyIdle      time.Duration // as httpserver.Limits.Idle
	TenantStreams int           // as httpapi.Options.TenantStreams
}

// stopShare is the part of the time to stop that questions which somebody waits for get to end.
const stopShare = 1.0 / 3

// Server is the API as a service.
type Server struct {
	*lifecycle.Func
	listener net.Listener
	bodyIdle time.Duration

	certificate *httpserver.Certificate // nil: plain HTTP
}

// New listens at once, so that a taken address is an early error and URL is
// known; it serves from Start on. A Server runs once.
func New(ctx context.Context, c config.HTTP, d Deps) (*Server, error) {
	d.Store.OnOutbox(bus.WakeRelay(d.NATS))
	catalogue, err := queryworker.Plans(d.Plans.Plans)
	if err != nil {
		return nil, err
	}
	if err := checkTraceURL(c.TraceURL); err != nil {
		return nil, err
	}
	certificate, err := certificate(c)
	if err != nil {
		return nil, err
	}
	sessions, err := auth.NewSessions(c.SessionSecret)
	if err != nil {
		return nil, err
	}
	provider, err := signInProvider(c, d.OIDC)
	if err != nil {
		return nil, err
	}
	for name, perMinute := range map[string]int{"key-requests": c.KeyRequests, "tenant-requests": c.TenantRequests} {
		if perMinute < 0 {
			return nil, schema.Invalid(name, "%d: needs to be 0 or more requests a minute", perMinute)
		}
	}
	proxies, err := schema.ParseRanges("trusted-proxies", c.TrustedProxies)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen (--listen, SLUICE_LISTEN): %w", err)
	}
	kept := stores.Of(d.Store)
	keys := auth.New(kept.TenantStore)
	running := operationAPI{questions: kept.QuestionStore, tenants: kept.TenantStore, nats: d.NATS, hub: newEventHub(d.NATS), temporal: d.Temporal, namespace: d.Namespace}
	lookups := newLookups(d.NATS, d.Remember, keys.ForgetTenant)
	named := planAPI{catalogue, kept.PlanStore, kept.DocumentStore, lookups}
	stopping := make(chan struct{})
	pages, err := manual.New(docs.Pages)
	if err != nil {
		return nil, err
	}
	waiting, cutShort := context.WithCancel(context.WithoutCancel(ctx))
	workers := bus.NewWorkers(d.NATS)
	asked := questionAPI{QuestionStore: kept.QuestionStore, nats: d.NATS, workers: workers, signer: d.Signer, plans: named, waiting: waiting}
	people := peopleAPI{keys, lookups}
	recorder := audit.NewRecorder(kept.AuditStore)
	record := recorder.Record
	if c.AuditReads == auditOff {
		record = nil
	}
	permits := auth.NewPermits(kept.AccessStore)
	uploads := documents.New(kept, documents.Options{MaxBytes: c.MaxUpload << 20, Room: d.Room})
	handler := httpapi.New(httpapi.Options{
		Standalone:  conversation.Standalone,
		Version:     d.Version,
		AskTime:     c.AskTimeout,
		TenantOpen:  c.TenantOpen,
		KeyRequests: c.KeyRequests, TenantRequests: c.TenantRequests,
		TenantStreams: d.TenantStreams,
		Authenticator: keys,
		Permissions:   permits,
		Sessions:      sessions,
		SignIns:       signIns(provider, people, kept.TenantStore, d),
		Collections:   collectionAPI{kept.DocumentStore, named},
		Rebuilds:      kept,
		Reparses:      kept,
		Documents:     documentAPI{kept.DocumentStore, uploads},
		Questions:     asked,
		Receipts:      receiptAPI{kept.QuestionStore, d.Receipts, d.Version},
		Preferences:   preferenceAPI{asked},
		Plans:         named,
		PlanChoices:   choiceAPI{kept.ChoiceStore, named},
		Webhooks:      webhookAPI{kept.WebhookStore},
		SyncSources:   sourceAPI{kept.SourceStore, d.SourceKeys, d.NATS, d.Signer},
		SourceAccess:  accessAPI{kept.AccessStore, kept.SourceStore, uploads, permits},
		Evaluations:   evaluationAPI{kept.EvaluationStore},
		Judge:         judgeAPI{asked},
		Ratings:       kept,
		Tenants:       tenantAPI{TenantStore: kept.TenantStore, LedgerStore: kept.LedgerStore, auth: keys, lookups: lookups},
		Audit:         kept.AuditStore,
		Record:        record,
		Operations:    running,
		Events:        running,
		Idempotency:   d.Store,
		TraceURL:      c.TraceURL,
		Stopping:      stopping,
		Ready: func(ctx context.Context) error {
			if !d.NATS.IsConnected() {
				return fmt.Errorf("no connection to nats: %w", schema.ErrUnavailable)
			}
			if d.Ready != nil {
				if err := d.Ready(); err != nil {
					return err
				}
			}
			return d.Store.Ping(ctx)
		},
		Degraded:       func(ctx context.Context) string { return lacking(ctx, d.Store) },
		PeopleSessions: people,
		TrustedProxies: proxies,
	})
	signInAt := mcpserver.Authorization{PublicURL: strings.TrimRight(d.PublicURL, "/")}
	if provider != nil && provider.TakesTokens() {
		signInAt.Issuer = provider.Issuer()
	}
	handler = web.Mount(mcpserver.Mount(pages.Mount(handler), d.Version, signInAt))
	s := &Server{listener: listener, bodyIdle: d.BodyIdle, certificate: certificate}
	s.Func = lifecycle.NewFunc("api", func(ctx context.Context) (lifecycle.Run, error) {
		return s.serve(ctx, handler, recorder, []subscribe{lookups.listen, workers.Listen}, stopping, cutShort)
	})
	return s, nil
}

// lackingLimit is short, because who asks whether a server is ready waits little.
const lackingLimit = 500 * time.Millisecond

// lacking is s3 when that does not answer: searches and questions do not need it,
// so that the server is ready.
func lacking(ctx context.Context, s *store.Store) string {
	objects := s.Options().Objects
	if objects == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, lackingLimit)
	defer cancel()
	if err := objects.Check(ctx); err != nil {
		slog.WarnContext(ctx, "the API is ready, except for uploads and downloads", "error", err)
		return "s3"
	}
	return ""
}

// certificate reads the API's; nil: there is none.
func certificate(c config.HTTP) (*httpserver.Certificate, error) {
	if c.APITLSCert == "" && c.APITLSKey == "" {
		return nil, nil
	}
	if c.APITLSCert == "" || c.APITLSKey == "" {
		return nil, schema.Invalid("SLUICE_API_TLS_CERT", "a certificate and its key (SLUICE_API_TLS_KEY) are needed together")
	}
	read, err := httpserver.ReadCertificate(c.APITLSCert, c.APITLSKey)
	if err != nil {
		return nil, fmt.Errorf("certificate of the API (SLUICE_API_TLS_CERT, SLUICE_API_TLS_KEY): %w", err)
	}
	return read, nil
}

// auditOff is the setting by which nobody's reads are recorded.
const auditOff = "off"

// checkTraceURL reports a template that leads nowhere.
func checkTraceURL(template string) error {
	if template == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(template, "{trace}", "0"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(template, "{trace}") {
		return schema.Invalid("trace-url", "%q: needs to be an http or https address with {trace} in it, such as https://jaeger.example/trace/{trace}", template)
	}
	return nil
}

// URL is where this machine reaches the API; with a certificate, under a name that this has.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return "http://" + s.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if s.certificate != nil {
		return "https://" + net.JoinHostPort(s.certificate.Host(host), port)
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Close gives the address back when the server was never started.
func (s *Server) Close() { _ = s.listener.Close() }

// subscribe hears what other processes tell until stop is called.
type subscribe func() (stop func(), err error)

func (s *Server) serve(ctx context.Context, handler http.Handler, recorder *audit.Recorder, listeners []subscribe, stopping chan struct{}, cutShort func()) (lifecycle.Run, error) {
	var stops []func()
	unsubscribe := func() {
		for _, stop := range stops {
			stop()
		}
	}
	for _, listen := range listeners {
		stop, err := listen()
		if err != nil {
			unsubscribe()
			return lifecycle.Run{}, err
		}
		stops = append(stops, stop)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	server := httpserver.New(handler, httpserver.Limits{Idle: s.bodyIdle})
	serve := server.Serve
	if s.certificate != nil {
		s.certificate.Encrypt(server)
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	server.BaseContext = func(net.Listener) context.Context { return base }
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(stopping) }))
	recording, recordNoMore := context.WithCancel(base)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		recorder.Run(recording)
	}()
	done := make(chan struct{})
	var failure error
	go func() {
		defer close(done)
		if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			failure = err
		}
	}()
	return lifecycle.Run{Done: done, Err: func() error { return failure }, Stop: func(ctx context.Context) error {
		defer cancel()
		inTime, giveUp := lifecycle.Share(ctx, stopShare)
		defer giveUp()
		defer context.AfterFunc(inTime, cutShort)()
		err := server.Shutdown(ctx)
		if err != nil {
			cancel()
			err = errors.Join(err, server.Close())
		}
		<-done
		recordNoMore()
		<-recorded
		if failed := recorder.Flush(ctx); failed != nil {
			slog.ErrorContext(ctx, "cannot write the last reads to the audit log", "error", failed)
		}
		unsubscribe()
		return err
	}}, nil
}
