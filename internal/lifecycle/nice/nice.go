// Package nice lowers the priority of processes whose work nobody waits for, so that what somebody
// waits for gets the processor first. What is lowered still runs in the time that is left, and a
// tenth as much as others when there is none.
//
// Lowering needs no rights over processes of the same user; of other users' processes root alone
// may. Systems that know no such thing give an error, which is no reason to stop.
package nice

import "fmt"

// background is the niceness of what nobody waits for: a tenth of the usual weight on Linux.
const background = 10

// Own lowers this process, with all of its threads. It must lead a process group.
func Own() error { return Group(0) }

// Group lowers a process group, with all threads of its processes: those that they start later,
// too. 0 is this process's.
func Group(id int) error {
	if err := group(id); err != nil {
		return fmt.Errorf("lower the priority of process group %d: %w", id, err)
	}
	return nil
}

// Session lowers a process of one thread that leads a session of its own, as a backend of
// PostgreSQL does.
func Session(pid int) error {
	if err := session(pid); err != nil {
		return fmt.Errorf("lower the priority of process %d: %w", pid, err)
	}
	return nil
}
