package main

// This file counts the CPU seconds of Sluice's processes from /proc.
//
// Two snapshots are enough, and no process has to be watched: the kernel adds what a child used to its parent when the
// parent has waited for it. What a group of processes used is the own time of those that live and what the parent was
// given for those that ended, and ending moves time from the one to the other.

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// tick is the unit of /proc's times, USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 1.0 / 100

// process is a line of /proc.
type process struct {
	pid, parent int
	started     uint64  // ticks since boot; with the pid it is unique
	own         float64 // CPU seconds in user and kernel mode, of all threads
	reaped      float64 // CPU seconds of ended children that it has waited for, and of theirs
}

// parseStat reads the text of /proc/PID/stat.
func parseStat(text string) (process, error) {
	// The name is in parentheses and may hold any character.
	open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || shut < open {
		return process{}, fmt.Errorf("no name in %q", text)
	}
	fields := append([]string{text[:open], ""}, strings.Fields(text[shut+1:])...)
	if len(fields) < 22 {
		return process{}, fmt.Errorf("%d fields in %q", len(fields), text)
	}
	var bad error
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(strings.TrimSpace(fields[i-1]), 10, 64)
		bad = errors.Join(bad, err)
		return n
	}
	p := process{
		pid: int(number(1)), parent: int(number(4)), started: number(22),
		own: float64(number(14)+number(15)) * tick, reaped: float64(number(16)+number(17)) * tick,
	}
	if bad != nil {
		return process{}, fmt.Errorf("read %q: %w", text, bad)
	}
	return p, nil
}

// processes reads all processes of the system.
func processes() (map[int]process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	out := make(map[int]process, len(paths))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read processes: %w", err)
		}
		p, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[p.pid] = p
	}
	return out, nil
}

// gone reports whether err means that a process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "no such process")
}

// arguments returns a process's command line; nil when it has ended.
func arguments(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
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

// account reads the usage of `sluice up` with the pid sluice, and of the NATS server with the pid nats.
func account(sluice, nats int) (usage, error) {
	// A process that ended between the reading of its parent and its own would be counted nowhere: only a reading between
	// whose begin and end none came or went is good.
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

// since returns what was used after an earlier snapshot. A server that ended meanwhile is an error: its time is lost among
// the parsers'.
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

// systemBusy returns the CPU seconds that everything on this machine has used since it started.
func systemBusy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the machine's load: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parseBusy(line)
}

// parseBusy reads the first line of /proc/stat: all but idle time and waiting for a disk. Guests are in user time already.
func parseBusy(line string) (float64, error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read the machine's load: unexpected line %q", line)
	}
	busy := uint64(0)
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the machine's load: %q: %w", line, err)
		}
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return float64(busy) * tick, nil
}
