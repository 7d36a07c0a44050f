package local

import "testing"

// TestPortsAreNotThoseOfConnections: connections of other processes take none of these ports while
// a server is down.
func TestPortsAreNotThoseOfConnections(t *testing.T) {
	for range 100 {
		if port, err := choosePort(0); err != nil || port < firstPort || port >= lastPort {
			t.Fatalf("got %d, %v", port, err)
		}
	}
}
