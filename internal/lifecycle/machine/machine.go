// Package machine tells processes that share a machine from those that do not.
package machine

import (
	"os"
	"strings"
	"sync"
)

// bootFile names the boot of the kernel, which containers share.
const bootFile = "/proc/sys/kernel/random/boot_id"

// ID is the same for all processes of a machine, in whichever containers they run, until
// it is started anew. Where the system does not tell, it is the host's name; empty where
// that is unknown, too.
var ID = sync.OnceValue(func() string {
	if data, err := os.ReadFile(bootFile); err == nil {
		return strings.TrimSpace(string(data))
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
})
