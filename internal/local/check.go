// This file looks at every part and says what to do about those that aren't right, for `sluice doctor`.

package local

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// checkLimit bounds each look at a server.
const checkLimit = 5 * time.Second

// Finding is what Check has to say about one part.
type Finding struct {
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Found  string `json:"found,omitempty"`  // what is there: version and place
	Remedy string `json:"remedy,omitempty"` // what to do; empty when OK
}

// Check looks at every part: given servers are asked, for the others it looks whether they could be run on dir,
// which needn't exist yet.
func Check(ctx context.Context, dir string, given Given) []Finding {
	return []Finding{
		finding("data directory", "choose another with --data, or change its owner or mode", func() (string, error) { return checkDir(dir) }),
		finding("PostgreSQL with pgvector", remedyPostgres, func() (string, error) { return checkPostgres(ctx, given.DatabaseURL) }),
		finding("NATS with JetStream", "check SLUICE_NATS_URL, and that the server runs with JetStream (nats-server -js)",
			func() (string, error) { return checkNATS(ctx, given.NATSURL) }),
		finding("Temporal", remedyTemporal, func() (string, error) { return checkTemporal(ctx, given.TemporalAddress) }),
		finding("ONNX Runtime", remedyONNXRuntime, FindONNXRuntime),
	}
}

func finding(part, remedy string, look func() (string, error)) Finding {
	found, err := look()
	if err != nil {
		return Finding{Part: part, Found: err.Error(), Remedy: remedy}
	}
	return Finding{Part: part, OK: true, Found: found}
}

func checkDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	there := dir
	for {
		if ok, err := exists(there); err != nil {
			return "", err
		} else if ok {
			break
		}
		there = filepath.Dir(there)
	}
	probe, err := os.CreateTemp(there, ".probe-*")
	if err != nil {
		return "", err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return "", err
	}
	user, err := serverAccount()
	if err != nil {
		return "", err
	}
	if err := user.canEnter(there); err != nil {
		return "", err
	}
	return dir, nil
}

func checkPostgres(ctx context.Context, given string) (string, error) {
	if given == "" {
		p, err := FindPostgres(ctx, 0)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("PostgreSQL %d with pgvector %s in %s", p.Major, p.Vector, p.Bin), nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return "", fmt.Errorf("SLUICE_DATABASE_URL: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var version, vector string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'),
		coalesce((SELECT coalesce(installed_version, default_version) FROM pg_available_extensions WHERE name = 'vector'), '')`).Scan(&version, &vector)
	switch {
	case err != nil:
		return "", fmt.Errorf("SLUICE_DATABASE_URL: %w", err)
	case vector == "" || compareVersions(vector, minVector) < 0:
		return "", fmt.Errorf("SLUICE_DATABASE_URL: PostgreSQL %s has pgvector %q; >= %s is %w", version, vector, minVector, ErrMissing)
	}
	return fmt.Sprintf("PostgreSQL %s with pgvector %s at %s", version, vector, hostOf(given)), nil
}

func checkNATS(ctx context.Context, given string) (string, error) {
	if given == "" {
		return "NATS " + server.VERSION + ", built in", nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	nc, err := nats.Connect(given, nats.Timeout(checkLimit))
	if err != nil {
		return "", fmt.Errorf("SLUICE_NATS_URL: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", fmt.Errorf("SLUICE_NATS_URL: %w", err)
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		return "", fmt.Errorf("SLUICE_NATS_URL: %w", err)
	}
	return fmt.Sprintf("NATS %s at %s", nc.ConnectedServerVersion(), hostOf(given)), nil
}

func checkTemporal(ctx context.Context, given string) (string, error) {
	if given == "" {
		program, err := FindTemporal()
		return program.Path, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	conn, err := grpc.NewClient(given, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", fmt.Errorf("SLUICE_TEMPORAL_ADDRESS: %w", err)
	}
	defer func() { _ = conn.Close() }()
	reply, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: temporalHealth})
	if err != nil {
		return "", fmt.Errorf("SLUICE_TEMPORAL_ADDRESS: %w", err)
	}
	if reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return "", fmt.Errorf("SLUICE_TEMPORAL_ADDRESS: the server at %s says %s", given, reply.GetStatus())
	}
	return "Temporal at " + given, nil
}

// hostOf leaves out what is secret in a URL.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the given address"
	}
	return u.Host
}
