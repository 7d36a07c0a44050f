package rclonefs

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

func s3Fixture(t testing.TB, server *localtest.S3, bucket string) sourcetest.Fixture {
	server.MakeBucket(bucket)
	client, err := minio.New(server.Address, &minio.Options{Creds: credentials.NewStaticV4(server.AccessKey, server.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	faults := sourcetest.NewFaults(t, "http://"+server.Address)
	listing := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Trim(r.URL.Path, "/") == bucket
	}
	return sourcetest.Fixture{
		Driver: paged(s3, testPage).driver(), Faults: faults,
		Settings: source.Settings{AllowPrivate: true, Values: map[string]string{"endpoint": faults.URL(), "bucket": bucket,
			"access_key": server.AccessKey, "secret_key": server.SecretKey}},
		WrongCredentials: func(v map[string]string) { v["secret_key"] = "wrong" },
		Listing:          listing,
		Content:          func(r *http.Request) bool { return r.Method == http.MethodGet && !listing(r) },
		Put: func(t testing.TB, path string, content []byte) {
			t.Helper()
			if _, err := client.PutObject(t.Context(), bucket, path, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		Remove: func(t testing.TB, path string) {
			t.Helper()
			if err := client.RemoveObject(t.Context(), bucket, path, minio.RemoveObjectOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestS3(t *testing.T) {
	server := localtest.NewS3(t)
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		return s3Fixture(t, server, strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]))
	})
}
