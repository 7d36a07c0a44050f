package main

import (
	"net"
	"os"
	"os/exec"
)

// runMisbehaving is the environment variable that makes the test binary run misbehave instead of
// the model server. Its value is the path that misbehave writes to.
const runMisbehaving = "GPU_SEGMENTER_TEST_MISBEHAVE"

// misbehave does what the model server must not do, to test that the trace shows all of it. Errors
// are ignored: attempts count.
func misbehave(stray string) {
	dial := func(network, address string) {
		if c, err := net.Dial(network, address); err == nil {
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	}
	dial("tcp", "127.0.0.1:1")
	dial("udp", "127.0.0.1:53")
	dial("tcp", "[::1]:9")
	dial("unix", stray)
	if c, err := net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
		_, _ = c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
		_ = c.Close()
	}
	_ = os.WriteFile(stray, nil, 0o600)
	_ = os.Mkdir(stray+".dir", 0o700)
	_ = os.WriteFile("own", nil, 0o600)
	_ = exec.Command("/bin/true").Run()
}
