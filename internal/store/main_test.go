package store_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

var databases atomic.Int64

func databaseURL(t *testing.T, migrate bool) string {
	t.Helper()
	admin := "postgres://postgres@127.0.0.1:54329/postgres"
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("t_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	})
	url := "postgres://postgres@127.0.0.1:54329/" + name
	if migrate {
		if err := store.Migrate(ctx, url); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

var _ = schema.ErrNotFound
