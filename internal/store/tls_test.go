package store_test

import (
	"context"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/certtest"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
)

// TestPostgresIsVerified: with sslmode=verify-full in the URL, only a server with a certificate of
// the given authority for the given host is accepted.
func TestPostgresIsVerified(t *testing.T) {
	dir := localtest.Dir(t)
	ours, others := certtest.New(t, dir), certtest.New(t, t.TempDir())
	pair := ours.Server("127.0.0.1")
	ownedByTheServer(t, pair.Key)
	server, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: localtest.Dir(t), Throwaway: true,
		Settings: map[string]string{"ssl": "on", "ssl_cert_file": pair.Cert, "ssl_key_file": pair.Key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	over := func(plain, host, authority string) string {
		u, err := url.Parse(plain)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = host + ":" + u.Port()
		u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {authority}}.Encode()
		return u.String()
	}
	address := func(host, authority string) string { return over(server.URL(), host, authority) }
	good := address("127.0.0.1", ours.File)
	if err := store.Migrate(t.Context(), over(server.OwnerURL(local.Database), "127.0.0.1", ours.File), good, server.VectorURL(local.Database)); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), good, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	conn, err := pgx.Connect(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the server stops
	var encrypted bool
	if err := conn.QueryRow(t.Context(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&encrypted); err != nil || !encrypted {
		t.Errorf("encrypted: %v, %v", encrypted, err)
	}
	for name, bad := range map[string]string{"another authority": address("127.0.0.1", others.File), "another name": address("localhost", ours.File)} {
		if s, err := store.Open(t.Context(), bad, store.Options{}); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
}

// ownedByTheServer gives a key file to the user as which Postgres runs when the test runs as root:
// Postgres refuses files of others.
func ownedByTheServer(t *testing.T, file string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, uid, -1); err != nil {
			t.Fatal(err)
		}
		return
	}
}
