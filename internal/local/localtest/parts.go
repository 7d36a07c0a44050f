// This file has the servers, databases and directories for single tests.

package localtest

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// serial makes names unique within the test binary.
var serial atomic.Int64

func started(t testing.TB) *machine {
	t.Helper()
	if running == nil {
		t.Fatal("localtest: this package's TestMain must call localtest.Main")
	}
	return running
}

// Dir returns an empty directory for this test that, unlike t.TempDir, every user can enter, as
// PostgreSQL's user must.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(started(t).dir, "dir-*")
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatalf("localtest: %v", err)
	}
	t.Cleanup(func() {
		// Processes of a server that was killed may still add files.
		waittest.Until(t, func() string {
			if err := os.RemoveAll(dir); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	return dir
}

// Postgres returns the test binary's server, for its AdminURL. A test that stops or kills a server
// must start its own.
func Postgres(t testing.TB) *local.Postgres {
	t.Helper()
	r := started(t)
	if r.postgres == nil {
		t.Fatal("localtest: no Postgres: say Need{Postgres: true} to localtest.Main")
	}
	return r.postgres
}

// Database returns the URL of a new database, a copy of the migrated one, with the login of
// programs. It is dropped after the test.
func Database(t testing.TB) string {
	t.Helper()
	pg := Postgres(t)
	name := fmt.Sprintf("test_%d", serial.Add(1))
	// Without fsync, copying the files is ten times faster than the default strategy, which writes
	// each page to the log.
	admin(t, pg, fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE %s STRATEGY file_copy", name, local.Owner, running.template))
	t.Cleanup(func() { admin(t, pg, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)) })
	if running.migrated {
		return pg.ProgramURL(name)
	}
	return pg.OwnerURL(name)
}

// OwnerURL returns the URL of the same database with the login of its owner, which runs migrations.
func OwnerURL(t testing.TB, url string) string {
	t.Helper()
	return Postgres(t).OwnerURL(database(t, url))
}

// ProgramURL returns the URL of the same database with the login of programs, which a migration
// must have made.
func ProgramURL(t testing.TB, url string) string {
	t.Helper()
	return Postgres(t).ProgramURL(database(t, url))
}

// VectorURL returns the URL of the same database with the login of the owner of vector partitions.
func VectorURL(t testing.TB, url string) string {
	t.Helper()
	return Postgres(t).VectorURL(database(t, url))
}

func database(t testing.TB, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	return config.Database
}

func admin(t testing.TB, pg *local.Postgres, statement string) {
	t.Helper()
	ctx := waittest.Context(t)
	conn, err := pgx.Connect(ctx, pg.AdminURL("postgres"))
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			t.Errorf("localtest: %v", err)
		}
	}()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("localtest: %s: %v", statement, err)
	}
}

// NATS returns a new NATS server with JetStream. It belongs to the test, which may stop, wipe and
// start it.
func NATS(t testing.TB) *local.NATS {
	t.Helper()
	n, err := local.StartNATS(waittest.Context(t), local.NATSOptions{Dir: Dir(t)})
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Stop(waittest.Context(t)); err != nil {
			t.Errorf("localtest: %v", err)
		}
	})
	return n
}

// TemporalNamespace is the namespace of a test's workflows.
type TemporalNamespace struct {
	Address   string // of the frontend, host:port
	Namespace string
}

// Temporal returns a new namespace on the test binary's server.
func Temporal(t testing.TB) TemporalNamespace {
	t.Helper()
	r := started(t)
	if r.temporal == nil {
		t.Fatal("localtest: no Temporal: say Need{Temporal: true} to localtest.Main")
	}
	conn, err := grpc.NewClient(r.temporal.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Errorf("localtest: %v", err)
		}
	}()
	name := fmt.Sprintf("test-%d", serial.Add(1))
	_, err = workflowservice.NewWorkflowServiceClient(conn).RegisterNamespace(waittest.Context(t), &workflowservice.RegisterNamespaceRequest{
		Namespace:                        name,
		WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatalf("localtest: registering namespace %s: %v", name, err)
	}
	return TemporalNamespace{Address: r.temporal.Address(), Namespace: name}
}
