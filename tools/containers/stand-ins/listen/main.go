// Command listen stands in for services that a test needs to exist but not to answer: it accepts
// connections on the ports of the collector and of Temporal's web UI, and closes them.
package main

import (
	"log"
	"net"
)

func main() {
	failed := make(chan error)
	for _, port := range []string{"4317", "8080", "8889"} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					failed <- err
					return
				}
				_ = c.Close()
			}
		}()
	}
	log.Fatal(<-failed)
}
