package e2e

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// testTemporal is another user of the machine, who finds where Temporal listens and asks for its workflows.
func testTemporal(t *testing.T, s *server) {
	said, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(s.child(t, "temporal-server"))).Output()
	if err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`--port (\d+)`).FindSubmatch(said)
	if port == nil {
		t.Fatalf("it runs as %s", said)
	}
	conn, err := grpc.NewClient("127.0.0.1:"+string(port[1]), grpc.WithTransportCredentials(insecure.NewCredentials()))
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
