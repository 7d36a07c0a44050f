// Package apiserver puts the HTTP API together. `sluice serve` runs it alone, `sluice up` runs it
// with all other parts.
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

// Deps are the connections and keys that the API uses. The caller closes them.
type Deps struct {
	Store  *store.Store
	NATS   *nats.Conn
	Signer *signature.Signer // signs requests that act for a tenant; nil: they are not signed
	// Receipts signs receipts of answers; nil: there are no receipts.
	Receipts *receipt.Signer
	// SourceKeys encrypt secrets of sources; if there are none, sources with secrets are refused.
	SourceKeys seal.Keys
	Version    string
	Plans      config.Plans // the plans of the query workers

	OIDC      config.OIDC // the identity provider where people sign in; none if it has no issuer
	PublicURL string      // the address at which people reach the API; empty: the address that their browser used

	Temporal  client.Client // for the state of task queues; nil: none is shown
	Namespace string        // the Temporal namespace of the task queues

	// CheckDisk returns a schema.ErrStorageFull if nothing may be uploaded now; nil: uploads are
	// always possible.
	CheckDisk func() error
	// Ready returns an error if this server cannot do its work; the database and NATS are checked
	// besides. nil: nothing else is checked.
	Ready func() error

	// CacheTTL is how long collections and plans are cached unless another API server announces
	// that they have changed; 0: 3 s.
	CacheTTL      time.Duration
	BodyIdle      time.Duration // as httpserver.Limits.Idle
	TenantStreams int           // as httpapi.Options.TenantStreams
}

// stopShare is the part of the time to stop in which questions that clients wait for may finish.
const stopShare = 1.0 / 3

// Server is the API as a service.
type Server struct {
	*lifecycle.Func
	listener net.Listener
	bodyIdle time.Duration

	certificate *httpserver.Certificate // nil: plain HTTP
}

// New listens at once, so that an address in use is reported early and URL is known. The server
// serves from Start on. A Server runs once.
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
	tenantCache := newTenantCache(d.NATS, d.CacheTTL, keys.ForgetTenant)
	named := planAPI{catalogue, kept.PlanStore, kept.DocumentStore, tenantCache}
	stopping := make(chan struct{})
	pages, err := manual.New(docs.Pages)
	if err != nil {
		return nil, err
	}
	waiting, cancelWaiting := context.WithCancel(context.WithoutCancel(ctx))
	workers := bus.NewWorkers(d.NATS)
	asked := questionAPI{QuestionStore: kept.QuestionStore, nats: d.NATS, workers: workers, signer: d.Signer, plans: named, waiting: waiting}
	people := peopleAPI{keys, tenantCache}
	recorder := audit.NewRecorder(kept.AuditStore)
	record := recorder.Record
	if c.AuditReads == auditOff {
		record = nil
	}
	permits := auth.NewPermits(kept.AccessStore)
	uploads := documents.New(kept, documents.Options{MaxBytes: c.MaxUpload << 20, CheckDisk: d.CheckDisk})
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
		Tenants:       tenantAPI{TenantStore: kept.TenantStore, LedgerStore: kept.LedgerStore, auth: keys, tenantCache: tenantCache},
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
		Degraded:       func(ctx context.Context) string { return unavailableParts(ctx, d.Store) },
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
		return s.serve(ctx, handler, recorder, []subscribe{tenantCache.listen, workers.Listen}, stopping, cancelWaiting)
	})
	return s, nil
}

// readyTimeout is short because clients that check whether a server is ready do not wait long.
const readyTimeout = 500 * time.Millisecond

// unavailableParts returns "s3" if S3 does not answer. The server is ready all the same: searches
// and questions do not need S3.
func unavailableParts(ctx context.Context, s *store.Store) string {
	objects := s.Options().Objects
	if objects == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := objects.Check(ctx); err != nil {
		slog.WarnContext(ctx, "the API is ready, except for uploads and downloads", "error", err)
		return "s3"
	}
	return ""
}

// certificate reads the API's certificate; nil: there is none.
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

// auditOff is the setting that turns off the recording of reads.
const auditOff = "off"

// checkTraceURL returns an error if a template is no address with {trace} in it.
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

// URL returns the API's address for clients on this machine. With a certificate, its host is a name
// that the certificate is for.
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

// Close closes the listener of a server that was never started.
func (s *Server) Close() { _ = s.listener.Close() }

// subscribe listens to messages of other processes until stop is called.
type subscribe func() (stop func(), err error)

func (s *Server) serve(ctx context.Context, handler http.Handler, recorder *audit.Recorder, listeners []subscribe, stopping chan struct{}, cancelWaiting func()) (lifecycle.Run, error) {
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
		inTime, release := lifecycle.Share(ctx, stopShare)
		defer release()
		defer context.AfterFunc(inTime, cancelWaiting)()
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
