// Package machine identifies the machine that a process runs on, so that processes on one machine
// can find out that they share it.
package machine

import (
	"os"
	"strings"
	"sync"
)

// bootFile has the id of the kernel's boot, which is the same in all containers.
const bootFile = "/proc/sys/kernel/random/boot_id"

// ID returns a text that is the same for all processes of a machine, in whichever containers they
// run, until the machine is rebooted. On systems without a boot id it is the host's name, or "" if
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
