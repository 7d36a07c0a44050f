package main

// This file counts the CPU seconds of Sluice's processes from /proc.
//
// Two snapshots are enough, and no process has to be watched: the kernel adds what a child used to
// its parent when the parent has waited for it. What a group of processes used is the own time of
// those that live and what the parent was given for those that ended, and ending moves time from
// the one to the other.

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

// ticks is how many units of /proc's times a second has, USER_HZ, which is 100 on every
// architecture that Go runs on.
const ticks = 100

// process is what is counted of a process.
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
			continue // it has ended
		case err != nil:
			return nil, fmt.Errorf("read process %d: %w", one.PID, err)
		}
		out[one.PID] = process{pid: one.PID, parent: stat.PPID, started: stat.Starttime,
			own: stat.CPUTime(), reaped: float64(stat.CUTime+stat.CSTime) / ticks}
	}
	return out, nil
}

// arguments returns a process's command line; nil when it has ended.
func arguments(pid int) []string {
	one, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	argv, _ := one.CmdLine() // none where it has ended
	return argv
}

// below returns root and what descends from it, by pid.
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

// usage is what the parts have used until now.
type usage struct {
	seconds map[part]float64
	// servers are the processes that must live from the first snapshot to the last, by part.
	servers map[part][]int
}

// account reads the usage of `sluice up` with the pid sluice, and of the NATS server with the pid
// nats.
func account(sluice, nats int) (usage, error) {
	// A process that ended between the reading of its parent and its own would be counted nowhere:
	// only a reading between whose begin and end none came or went is good.
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

// attribute divides the time of the processes among the parts. argv tells a process's command line.
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
	// Of its children only parsers end while it runs; that the others don't is checked.
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

// kindOf tells what a child of `sluice up` is from its command line.
func kindOf(argv []string, sluice string) part {
	if len(argv) == 0 {
		return partParse // just ended, or not yet begun
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

// since returns what was used after an earlier snapshot. A server that ended meanwhile is an error:
// its time is lost among the parsers'.
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

// systemBusy returns the CPU seconds that everything on this machine has used since it started: all
// but idle time and waiting for a disk. Guests are in user time already.
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
