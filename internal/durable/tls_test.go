package durable_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
)

// list lists workflows once.
func list(t *testing.T, o durable.Options) error {
	t.Helper()
	c, err := durable.Later(o)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: o.Namespace})
	return err
}

func TestTemporalIsReachedWithACertificateAlone(t *testing.T) {
	server, err := local.StartTemporal(t.Context(), local.TemporalOptions{Dir: localtest.Dir(t), Secure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	own := server.TLS()
	if own == nil {
		t.Fatal("the server has no certificate (run `make setup`)")
	}
	good := durable.TLS{CA: own.CA, Cert: own.Cert, Key: own.Key, ServerName: own.ServerName}
	reach := func(tls durable.TLS) error {
		return list(t, durable.Options{Address: server.Address(), Namespace: local.Namespace, TLS: tls})
	}
	if err := reach(good); err != nil {
		t.Errorf("with its certificate: %v", err)
	}
	if c, err := durable.Dial(t.Context(), durable.Options{Address: server.Address(), TLS: good}); err != nil {
		t.Errorf("with its certificate: %v", err)
	} else {
		c.Close()
	}
	stranger := certtest.New(t, t.TempDir())
	another := stranger.Client("stranger")
	for name, o := range map[string]durable.TLS{
		"without encryption":          {},
		"without a certificate":       {CA: own.CA, ServerName: own.ServerName},
		"with another's certificate":  {CA: own.CA, Cert: another.Cert, Key: another.Key, ServerName: own.ServerName},
		"with another authority":      {CA: stranger.File, Cert: own.Cert, Key: own.Key, ServerName: own.ServerName},
		"with another server's name":  {CA: own.CA, Cert: own.Cert, Key: own.Key, ServerName: "temporal.example"},
		"with the authorities of all": {Cert: own.Cert, Key: own.Key, ServerName: own.ServerName},
	} {
		if err := reach(o); err == nil {
			t.Errorf("%s: it was let in", name)
		}
	}
}

func TestWrongFilesOfTLSAreNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	pair := certtest.New(t, t.TempDir()).Client("c")
	for setting, o := range map[string]durable.TLS{
		"SLUICE_TEMPORAL_TLS_CA":   {CA: missing},
		"has no certificate":       {CA: pair.Key},
		"SLUICE_TEMPORAL_TLS_CERT": {Cert: missing, Key: missing},
		"SLUICE_TEMPORAL_TLS_KEY":  {Cert: pair.Cert},
	} {
		if _, err := durable.Later(durable.Options{Address: "127.0.0.1:1", TLS: o}); err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%+v: got %v, want an error that says %q", o, err, setting)
		}
	}
	if _, err := durable.Later(durable.Options{TLS: durable.TLS{Cert: pair.Cert}}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestTheAPIKeyIsSentWithEveryCallAndEncrypted: a proxy in front of the real server requires the
// key.
func TestTheAPIKeyIsSentWithEveryCallAndEncrypted(t *testing.T) {
	const key = "a-key-of-the-test"
	space := localtest.Temporal(t)
	behind, err := grpc.NewClient(space.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = behind.Close() }()
	forward, err := proxy.NewWorkflowServiceProxyServer(proxy.WorkflowServiceProxyOptions{Client: workflowservice.NewWorkflowServiceClient(behind)})
	if err != nil {
		t.Fatal(err)
	}
	authority := certtest.New(t, t.TempDir())
	pair := authority.Server("127.0.0.1")
	own, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	door := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&own)),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+key {
				return nil, status.Error(codes.Unauthenticated, "no key")
			}
			return handle(ctx, request)
		}))
	workflowservice.RegisterWorkflowServiceServer(door, forward)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	defer func() {
		door.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	o := durable.Options{Address: l.Addr().String(), Namespace: space.Namespace, APIKey: key, TLS: durable.TLS{CA: authority.File}}
	if err := list(t, o); err != nil {
		t.Error(err)
	}
	o.APIKey = "another"
	if err := list(t, o); err == nil {
		t.Error("it was let in with another key")
	}
	// The key isn't sent to a server without encryption, and neither is anything else.
	o.APIKey, o.TLS, o.Address = key, durable.TLS{}, space.Address
	if err := list(t, o); err == nil {
		t.Error("the key went unencrypted")
	}
}
