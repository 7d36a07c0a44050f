package local

import "testing"

// TestPortsAreNotThoseOfConnections: a connection of another process takes none while its server is
// away.
func TestPortsAreNotThoseOfConnections(t *testing.T) {
	for range 100 {
		if port, err := choosePort(0); err != nil || port < firstPort || port >= lastPort {
			t.Fatalf("got %d, %v", port, err)
		}
	}
}
