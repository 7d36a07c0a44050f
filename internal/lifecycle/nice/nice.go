// Package nice lowers the priority of background processes, so that interactive work gets the
// processor first. A lowered process still runs in idle time, and gets a tenth of a normal
// process's share when there is none.
//
// Lowering needs no privileges over processes of the same user; only root may lower those of other
// users. On systems without process priorities the functions return an error, which is no reason to
// stop.
package nice

import "fmt"

// background is the niceness of background processes: a tenth of the usual weight on Linux.
const background = 10

// Own lowers this process, with all of its threads. It must lead a process group.
func Own() error { return Group(0) }

// Group lowers a process group with all threads of its processes, including those that they start
// later. The id 0 means this process's group.
func Group(id int) error {
	if err := group(id); err != nil {
		return fmt.Errorf("lower the priority of process group %d: %w", id, err)
	}
	return nil
}

// Session lowers a single-threaded process that leads its own session, as a backend of PostgreSQL
// does.
func Session(pid int) error {
	if err := session(pid); err != nil {
		return fmt.Errorf("lower the priority of process %d: %w", pid, err)
	}
	return nil
}
