package e2e

import (
	"slices"
	"testing"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// testTemporal acts as another user of the machine, who finds the port of Temporal and asks for its
// workflows.
func testTemporal(t *testing.T, s *server) {
	args := s.childProcess(t, "temporal-server").args
	at := slices.Index(args, "--port") + 1
	if at == 0 || at == len(args) {
		t.Fatalf("it runs with %q", args)
	}
	conn, err := grpc.NewClient("127.0.0.1:"+args[at], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = workflowservice.NewWorkflowServiceClient(conn).ListWorkflowExecutions(t.Context(),
		&workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("who has no certificate gets %v", err)
	}
}
