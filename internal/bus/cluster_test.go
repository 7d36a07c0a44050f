package bus_test

// A cluster of servers with the configuration that nats-config writes.

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestThreeServersMakeACluster: streams have three replicas, and remain when one server is stopped.
func TestThreeServersMakeACluster(t *testing.T) {
	ours := certtest.New(t, t.TempDir())
	pair := ours.Peer("127.0.0.1")
	dir := t.TempDir()
	config := bus.ServerConfig{
		Store: "/data", Monitor: "0.0.0.0:8222", Routes: []string{"nats-0.nats:6222", "nats-1.nats:6222", "nats-2.nats:6222"},
		Cert: pair.Cert, Key: pair.Key, CA: ours.File,
	}
	if err := config.Write(dir); err != nil {
		t.Fatal(err)
	}
	var routes []*url.URL
	var servers []*server.Server
	var ports []int
	for range 3 {
		ports = append(ports, localtest.FreePort(t))
	}
	for i := range 3 {
		t.Setenv(bus.ServerNameVariable, fmt.Sprintf("nats-%d", i))
		o, err := server.ProcessConfigFile(filepath.Join(dir, bus.ServerConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		if o.ServerName != fmt.Sprintf("nats-%d", i) || len(o.Routes) != 3 || o.Routes[i].Host != config.Routes[i] || o.HTTPHost != "0.0.0.0" || o.Cluster.Password == "" {
			t.Fatalf("server %d is %s with routes %v, monitored at %s", i, o.ServerName, o.Routes, o.HTTPHost)
		}
		if routes == nil {
			for j, route := range o.Routes {
				moved := *route
				moved.Host = fmt.Sprintf("127.0.0.1:%d", ports[j])
				routes = append(routes, &moved)
			}
		}
		o.Host, o.Port, o.HTTPPort, o.NoSigs, o.StoreDir = "127.0.0.1", -1, 0, true, t.TempDir()
		o.Cluster.Host, o.Cluster.Port, o.Routes = "127.0.0.1", ports[i], routes
		servers = append(servers, started(t, o))
	}
	mine := ours.Client("ingest-worker")
	files := bus.Files{
		NATSCredentials: filepath.Join(dir, bus.CredentialsFile(wire.ProgramIngestWorker)), NATSCA: ours.File, NATSCert: mine.Cert, NATSKey: mine.Key,
	}
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, strings.Replace(s.ClientURL(), "nats://", "tls://", 1))
	}
	nc, err := bus.Connect(t.Context(), bus.Options{URL: strings.Join(addresses, ","), Name: t.Name(), Program: wire.ProgramIngestWorker, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// JetStream refuses until the servers have elected a leader.
	waittest.Until(t, func() string {
		if err := bus.EnsureStreams(t.Context(), js, bus.StreamLimits{Replicas: 3}); err != nil {
			return err.Error()
		}
		return ""
	})
	stream, err := js.Stream(t.Context(), wire.StreamIngest)
	if err != nil {
		t.Fatal(err)
	}
	i := stream.CachedInfo()
	if i.Config.Replicas != 3 || i.Cluster == nil || len(i.Cluster.Replicas) != 2 {
		t.Fatalf("the stream is %+v", i)
	}
	for _, s := range servers {
		if s.Name() == i.Cluster.Leader {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	waittest.Until(t, func() string {
		if _, err := js.Publish(t.Context(), wire.IngestSubject(uuid.New()), []byte("{}")); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestARouteThatIsNoAddressIsRefused(t *testing.T) {
	for _, c := range []bus.ServerConfig{{Routes: []string{"nats-0"}}, {Monitor: "8222"}} {
		if err := c.Write(t.TempDir()); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
