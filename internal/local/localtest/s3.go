package localtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// S3 is an S3 server that set-up built (tools/s3), which stores objects in a folder. A test can
// stop and start it, and damage its objects. It runs until the end of the test.
type S3 struct {
	Address              string // host:port
	AccessKey, SecretKey string

	t       testing.TB
	program string
	dir     string
	child   *exec.Cmd
	input   io.Closer
}

// NewS3 starts a server without buckets.
func NewS3(t testing.TB) *S3 {
	t.Helper()
	tools, err := local.ToolsDir()
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	s := &S3{AccessKey: "sluice-test", SecretKey: "sluice-test-secret", t: t, program: filepath.Join(tools, "s3-server"), dir: Dir(t)}
	if _, err := os.Stat(s.program); err != nil {
		t.Fatalf("localtest: the S3 server for tests is missing (looked for %s): run `tools/setup s3`", s.program)
	}
	s.Address = FreeAddress(t)
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server, and returns when it listens.
func (s *S3) Start() {
	s.t.Helper()
	s.child = exec.Command(s.program, "--dir", s.dir, "--listen", s.Address, "--access-key", s.AccessKey, "--secret-key", s.SecretKey, "--exit-with-stdin")
	s.child.Stdout, s.child.Stderr = os.Stderr, os.Stderr
	var err error
	if s.input, err = s.child.StdinPipe(); err != nil {
		s.t.Fatalf("localtest: %v", err)
	}
	if err := s.child.Start(); err != nil {
		s.t.Fatalf("localtest: start the S3 server: %v", err)
	}
	var dialer net.Dialer
	waittest.Until(s.t, func() string {
		conn, err := dialer.DialContext(context.Background(), "tcp", s.Address)
		if err != nil {
			return fmt.Sprintf("the S3 server does not listen: %v", err)
		}
		_ = conn.Close()
		return ""
	})
}

// Stop kills the server like a crash. Its objects stay.
func (s *S3) Stop() {
	if s.child == nil {
		return
	}
	_ = s.child.Process.Kill()
	_ = s.input.Close()
	_ = s.child.Wait() // it returns the error that it was killed
	s.child = nil
}

// MakeBucket makes a bucket.
func (s *S3) MakeBucket(name string) {
	s.t.Helper()
	if err := os.Mkdir(s.Bucket(name), 0o700); err != nil {
		s.t.Fatalf("localtest: make a bucket: %v", err)
	}
}

// Bucket returns the folder of a bucket. Each file in it is an object.
func (s *S3) Bucket(name string) string { return filepath.Join(s.dir, "objects", name) }
