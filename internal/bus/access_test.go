package bus_test

// Tests of each program with the credentials that the server's configuration gives it.

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema/wire"
)

// permissionTable lists the permissions once more, independently of the code: a subject, its
// publishers, its subscribers.
const permissionTable = `
sluice.query.search                          serve                       query-worker
sluice.query.ask                             serve                       query-worker
sluice.query.search.cancel                   serve                       query-worker
sluice.query.ask.cancel                      serve                       query-worker
sluice.query.searching                       query-worker                ingest-worker
sluice.query.stage.TENANT.TENANT             query-worker                serve
sluice.query.text.TENANT.TENANT              query-worker                serve
sluice.llm.complete                          query-worker                llm-gateway
sluice.llm.complete.cancel                   query-worker                llm-gateway
sluice.llm.encode                            gpu-segmenter               llm-gateway
sluice.llm.rerank                            gpu-segmenter               llm-gateway
sluice.outbox                                serve,query-worker,ingest-worker,source-worker ingest-worker
sluice.status                                serve                       query-worker,llm-gateway,gpu-segmenter,source-worker
sluice.source.preview                        serve                       source-worker
sluice.source.preview.cancel                 serve                       source-worker
sluice.model.info                            serve,query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.encode                          query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.segment                         query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.score                           query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.link                            query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.fuse                            query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.model.detect                          query-worker,ingest-worker,llm-gateway gpu-segmenter
sluice.ingest.TENANT                         ingest-worker               -
sluice.questions.TENANT                      ingest-worker               -
sluice.events.TENANT.version.ready           ingest-worker               serve
sluice.events.TENANT.question.cancelled      ingest-worker               serve,query-worker
_INBOX.serve.abc                             query-worker,llm-gateway,gpu-segmenter,source-worker serve
_INBOX.serve.abc.text                        query-worker,llm-gateway,gpu-segmenter,source-worker serve
_INBOX.query-worker.abc                      llm-gateway,gpu-segmenter   query-worker
_INBOX.ingest-worker.abc                     gpu-segmenter               ingest-worker
_INBOX.llm-gateway.abc                       gpu-segmenter               llm-gateway
_INBOX.gpu-segmenter.abc                     llm-gateway                 gpu-segmenter
_INBOX.abc                                   -                           -
$JS.API.INFO                                 -                           -
$JS.API.STREAM.NAMES                         -                           -
$JS.API.STREAM.LIST                          -                           -
$JS.API.STREAM.INFO.SLUICE_INGEST            serve,query-worker,ingest-worker -
$JS.API.STREAM.INFO.SLUICE_EVENTS            serve,query-worker,ingest-worker -
$JS.API.STREAM.CREATE.SLUICE_INGEST          query-worker,ingest-worker  -
$JS.API.STREAM.CREATE.OTHER                  -                           -
$JS.API.STREAM.UPDATE.SLUICE_QUESTIONS       query-worker,ingest-worker  -
$JS.API.STREAM.DELETE.SLUICE_INGEST          -                           -
$JS.API.STREAM.PURGE.SLUICE_INGEST           -                           -
$JS.API.STREAM.MSG.DELETE.SLUICE_INGEST      -                           -
$JS.API.STREAM.MSG.GET.SLUICE_INGEST         ingest-worker               -
$JS.API.STREAM.MSG.GET.SLUICE_QUESTIONS      query-worker                -
$JS.API.STREAM.MSG.GET.SLUICE_EVENTS         -                           -
$JS.API.DIRECT.GET.SLUICE_EVENTS             -                           -
$JS.API.CONSUMER.LIST.SLUICE_INGEST          serve                       -
$JS.API.CONSUMER.CREATE.SLUICE_INGEST.ingest-workers ingest-worker       -
$JS.API.CONSUMER.CREATE.SLUICE_INGEST.other  -                           -
$JS.API.CONSUMER.CREATE.SLUICE_EVENTS.other  -                           -
$JS.API.CONSUMER.CREATE.SLUICE_QUESTIONS.query-workers query-worker      -
$JS.API.CONSUMER.DELETE.SLUICE_INGEST.ingest-workers -                   -
$JS.API.CONSUMER.MSG.NEXT.SLUICE_INGEST.ingest-workers ingest-worker     -
$JS.API.CONSUMER.MSG.NEXT.SLUICE_QUESTIONS.query-workers query-worker    -
$JS.ACK.SLUICE_INGEST.ingest-workers.1.1.1.1.1 ingest-worker             -
$JS.ACK.SLUICE_QUESTIONS.query-workers.1.1.1.1.1 query-worker            -
$SYS.REQ.SERVER.PING                         -                           -
sluice.other                                 -                           -
>                                            -                           -
sluice.>                                     -                           -
sluice.query.>                               -                           -
sluice.events.*.>                            -                           serve
_INBOX.>                                     -                           -
`

// configured starts a server with the configuration that nats-config writes, and returns the folder
// of the credentials.
func configured(t *testing.T, c bus.ServerConfig) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	c.Store = t.TempDir()
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(dir + "/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.HTTPPort, o.NoSigs = "127.0.0.1", -1, 0, true
	s := started(t, o)
	if !s.JetStreamEnabled() {
		t.Fatal("nats-server did not start JetStream")
	}
	return s.ClientURL(), dir
}

// TestADeniedInboxFailsItsRequests: a program with the credentials of another one is not left
// waiting for replies that it may not receive.
func TestADeniedInboxFailsItsRequests(t *testing.T) {
	t.Parallel()
	address, dir := configured(t, bus.ServerConfig{})
	another := bus.Files{NATSCredentials: dir + "/" + bus.CredentialsFile(wire.ProgramQueryWorker)}
	nc, err := bus.Connect(t.Context(), bus.Options{URL: address, Name: t.Name(), Program: wire.ProgramServe, Files: another})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 2 {
		_, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, wire.SearchRequest{Envelope: wire.Header()})
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAProgramsCredentialsAllowItsSubjectsAlone(t *testing.T) {
	t.Parallel()
	address, dir := configured(t, bus.ServerConfig{})
	tenant := uuid.NewString()
	// as connects as a program, calls do, and reports whether the server allowed it.
	as := func(p wire.Program, do func(*nats.Conn) error) bool {
		nc, err := bus.Connect(t.Context(), bus.Options{URL: address, Name: t.Name(), Program: p, Files: bus.Files{NATSCredentials: dir + "/" + string(p) + ".nk"}})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if err := do(nc); err != nil {
			t.Fatal(err)
		}
		// The server reports a refusal before its reply to the ping.
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := nc.LastError(); err != nil && !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			t.Fatal(err)
		}
		return nc.LastError() == nil
	}
	for line := range strings.Lines(strings.TrimSpace(permissionTable)) {
		f := strings.Fields(strings.ReplaceAll(line, "TENANT", tenant))
		subject, publishers, subscribers := f[0], strings.Split(f[1], ","), strings.Split(f[2], ",")
		for _, p := range wire.Programs() {
			one := p != wire.ProgramUp
			may := func(list []string) bool { // `sluice up` has the permissions of all programs, except for their inboxes
				return slices.Contains(list, string(p)) || !one && list[0] != "-"
			}
			if !strings.ContainsAny(subject, "*>") {
				if got := as(p, func(nc *nats.Conn) error { return nc.Publish(subject, []byte("{}")) }); got != may(publishers) {
					t.Errorf("%s publishes to %s: %v", p, subject, got)
				}
			}
			if got := as(p, func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subject); return err }); got != (may(subscribers) && (one || !strings.HasPrefix(subject, "_INBOX."))) {
				t.Errorf("%s subscribes to %s: %v", p, subject, got)
			}
		}
	}
}

// connectAs connects with the credentials of a program in dir.
func connectAs(t *testing.T, address, dir string, p wire.Program) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(t.Context(), bus.Options{
		URL: address, Name: string(p), Program: p, Files: bus.Files{NATSCredentials: dir + "/" + bus.CredentialsFile(p)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// TestAProgramsCredentialsSuffice: they allow what the bus itself does.
func TestAProgramsCredentialsSuffice(t *testing.T) {
	t.Parallel()
	address, dir := configured(t, bus.ServerConfig{})
	as := func(p wire.Program) *nats.Conn { return connectAs(t, address, dir, p) }
	tenant := uuid.New()
	works := func(stream, consumer string, nc *nats.Conn) jetstream.Consumer {
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if err := bus.EnsureStreams(t.Context(), js, bus.StreamLimits{}); err != nil {
			t.Fatal(err)
		}
		c, err := js.CreateOrUpdateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ingest, query := as(wire.ProgramIngestWorker), as(wire.ProgramQueryWorker)
	for _, c := range []struct {
		consumer jetstream.Consumer
		nc       *nats.Conn
		subject  string
	}{
		{works(wire.StreamIngest, wire.ConsumerIngest, ingest), ingest, wire.IngestSubject(tenant)},
		{works(wire.StreamQuestions, wire.ConsumerQuestions, query), query, wire.QuestionsSubject(tenant)},
	} {
		js, err := jetstream.New(ingest) // the ingest worker publishes queued messages
		if err == nil {
			_, err = js.Publish(t.Context(), c.subject, []byte("{}"))
		}
		if err != nil {
			t.Fatal(err)
		}
		stream, err := jetstream.New(c.nc)
		if err != nil {
			t.Fatal(err)
		}
		s, err := stream.Stream(t.Context(), c.consumer.CachedInfo().Stream)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject(c.subject)); err != nil {
			t.Errorf("%s: %v", c.subject, err)
		}
		msg, err := c.consumer.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := msg.DoubleAck(t.Context()); err != nil {
			t.Errorf("%s: %v", c.subject, err)
		}
	}
	serve := as(wire.ProgramServe)
	queues, err := bus.Queues(t.Context(), serve)
	if err != nil || len(queues) != 3 || len(queues[0].Consumers) != 1 {
		t.Errorf("serve sees the queues %+v, %v", queues, err)
	}
	if waiting, err := bus.TenantQueues(t.Context(), serve, tenant); err != nil || len(waiting) != 2 {
		t.Errorf("serve sees %+v wait, %v", waiting, err)
	}
	complete(t, as(wire.ProgramLLMGateway), bus.ServeOptions{})
	if services, err := bus.Services(t.Context(), serve); err != nil || len(services) != 1 {
		t.Errorf("serve sees the services %+v, %v", services, err)
	}
}
