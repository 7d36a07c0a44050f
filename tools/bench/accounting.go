package main

// This file counts the CPU seconds of Sluice's processes from /proc.
//
// Two snapshots are enough, and no process has to be watched: when a parent has waited for a child,
// the kernel adds the child's time to the parent's. The time of a group of processes is the own
// time of the living ones plus the children's time of those that have waited. The end of a process
// moves its time from the former to the latter.

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/prometheus/procfs"
)

// part is a kind of process.
type part string

const (
	partParse    part = "parse"    // children that parse files
	partModel    part = "model"    // gpu-segmenter
	partSQL      part = "sql"      // PostgreSQL with all its processes
	partSluice   part = "sluice"   // the process of `sluice up`: API, workers, relay
	partNATS     part = "nats"     // the NATS server
	partTemporal part = "temporal" // the Temporal server
	partClient   part = "client"   // `sluice ingest`
)

var parts = []part{partParse, partModel, partSQL, partSluice, partNATS, partTemporal, partClient}

// ticks is the number of units per second of times in /proc, USER_HZ, which is 100 on every
// architecture that Go runs on.
const ticks = 100

// process has the counters of a process.
type process struct {
	pid, parent int
	started     uint64  // ticks since boot; with the pid it is unique
	own         float64 // CPU seconds in user and kernel mode, of all threads
	reaped      float64 // CPU seconds of ended children that it has waited for, and of theirs
}

// processes reads all processes of the system.
func processes() (map[int]process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	out := make(map[int]process, len(all))
	for _, one := range all {
		stat, err := one.Stat()
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
			continue // the process has ended
		case err != nil:
			return nil, fmt.Errorf("read process %d: %w", one.PID, err)
		}
		out[one.PID] = process{pid: one.PID, parent: stat.PPID, started: stat.Starttime,
			own: stat.CPUTime(), reaped: float64(stat.CUTime+stat.CSTime) / ticks}
	}
	return out, nil
}

// arguments returns a process's command line; nil if the process has ended.
func arguments(pid int) []string {
	one, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	argv, _ := one.CmdLine() // empty if the process has ended
	return argv
}

// below returns root and its descendants, by pid.
func below(all map[int]process, root int) []process {
	children := map[int][]int{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	var out []process
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		if p, found := all[queue[0]]; found {
			out = append(out, p)
			queue = append(queue, children[p.pid]...)
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

// usage is what the parts have used so far.
type usage struct {
	seconds map[part]float64
	// servers are the processes that must live from the first snapshot to the last, by part.
	servers map[part][]int
}

// account reads the usage of the `sluice up` process and the NATS server with these pids.
func account(sluice, nats int) (usage, error) {
	// The time of a process that ends between the reading of its parent and its own would be lost.
	// So a reading is valid only if no process started or ended during it.
	for range 50 {
		before, err := processes()
		if err != nil {
			return usage{}, err
		}
		out, err := attribute(before, sluice, nats, arguments)
		if err != nil {
			return usage{}, err
		}
		after, err := processes()
		if err != nil {
			return usage{}, err
		}
		if slices.EqualFunc(below(before, sluice), below(after, sluice), func(a, b process) bool {
			return a.pid == b.pid && a.started == b.started
		}) {
			return out, nil
		}
	}
	return usage{}, errors.New("read processes: they come and go too fast to be counted")
}

// attribute divides the processes' time among the parts. argv returns a process's command line.
func attribute(all map[int]process, sluice, nats int, argv func(pid int) []string) (usage, error) {
	out := usage{seconds: map[part]float64{}, servers: map[part][]int{}}
	for pid, what := range map[int]string{sluice: "sluice up", nats: "the NATS server"} {
		if _, found := all[pid]; !found {
			return out, fmt.Errorf("%s (process %d) has ended", what, pid)
		}
	}
	self := argv(sluice)
	if len(self) == 0 {
		return out, fmt.Errorf("sluice up (process %d) has ended", sluice)
	}
	out.seconds[partSluice] = all[sluice].own
	// Only parsers among its children end while it runs; since checks that the others do not.
	out.seconds[partParse] = all[sluice].reaped
	out.seconds[partNATS] = all[nats].own + all[nats].reaped
	out.servers[partSluice], out.servers[partNATS] = []int{sluice}, []int{nats}
	for _, child := range below(all, sluice) {
		if child.parent != sluice {
			continue
		}
		kind := kindOf(argv(child.pid), self[0])
		if kind != partParse {
			out.servers[kind] = append(out.servers[kind], child.pid)
		}
		for _, p := range below(all, child.pid) {
			out.seconds[kind] += p.own + p.reaped
		}
	}
	return out, nil
}

// kindOf determines the part of a child of `sluice up` from its command line.
func kindOf(argv []string, sluice string) part {
	if len(argv) == 0 {
		return partParse // it has just ended or not yet called exec
	}
	switch filepath.Base(argv[0]) {
	case filepath.Base(sluice):
		return partParse
	case "gpu-segmenter":
		return partModel
	case "postgres":
		return partSQL
	}
	return partTemporal
}

// since returns what was used after an earlier snapshot. If a server ended in between, it returns
// an error, because the server's time would be counted as the parsers'.
func (u usage) since(before usage) (map[part]float64, error) {
	if !maps.EqualFunc(u.servers, before.servers, slices.Equal[[]int]) {
		return nil, fmt.Errorf("a server ended or started while it was measured (processes before: %v, after: %v); its log says why",
			before.servers, u.servers)
	}
	out := map[part]float64{}
	for p, s := range u.seconds {
		out[p] = s - before.seconds[p]
	}
	return out, nil
}

// systemBusy returns the CPU seconds that this machine has used since it started, without idle time
// and waiting for a disk. The time of guests is included in user time.
func systemBusy() (float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("read the machine's load: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the machine's load: %w", err)
	}
	c := stat.CPUTotal
	return c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal, nil
}
