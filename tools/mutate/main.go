// Command mutate changes one constant or operator at a time, in the shipped plans and in the
// formulas behind them, and runs the tests that should detect it. It prints the changes that no
// test detected.
//
//	go run ./tools/mutate [-only plans/saki] [-list] [-at 2/8]
//
// No file is changed: each variant is passed to go test as an overlay.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// targets are the files that are changed, and the packages whose tests should detect the change.
var targets = []struct {
	files    []string // patterns
	packages []string
}{
	{[]string{"plans/*.yaml"}, []string{"./plans", "./internal/retrieval/..."}},
	{[]string{"internal/retrieval/stage/*.go"}, []string{"./internal/retrieval/..."}},
	{[]string{"internal/cluster/*.go"}, []string{"./internal/cluster"}},
	{
		[]string{"internal/evaluate/measures.go", "internal/evaluate/ranking.go", "internal/evaluate/overlap.go", "internal/evaluate/passages.go", "internal/evaluate/meteor.go", "internal/evaluate/bootstrap.go", "internal/evaluate/calibration.go", "internal/evaluate/judging.go"},
		[]string{"./internal/evaluate"},
	},
}

// bounds limits the tests of a change: some changes make endless loops, some of which also allocate
// memory. A change whose tests run out of memory counts as detected.
type bounds struct {
	time   time.Duration
	memory uint64 // address space of each process, in bytes
}

// usual is enough for the compiler, and for Go's runtime, which reserves more than it uses.
var usual = bounds{time: 3 * time.Minute, memory: 4 << 30}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	only := flags.String("only", "", "change only files whose path has this `part`")
	list := flags.Bool("list", false, "print the changes and run nothing")
	at := flags.String("at", "1/1", "`i/n`: every n-th change, from the i-th on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var first, step int
	if _, err := fmt.Sscanf(*at, "%d/%d", &first, &step); err != nil || first < 1 || step < first {
		return fmt.Errorf("-at %s: want i/n with 1 <= i <= n", *at)
	}
	made, number, count := 0, 0, map[result]int{}
	summary := func() {
		fmt.Fprintf(out, "%d changes: %d noticed, %d run out of time, %d do not build, %d survive\n", made, count[killed], count[late], count[noBuild], count[survived])
	}
	for _, t := range targets {
		for _, pattern := range t.files {
			paths, err := filepath.Glob(pattern)
			if err != nil {
				return err
			}
			for _, path := range paths {
				if strings.HasSuffix(path, "_test.go") || !strings.Contains(path, *only) {
					continue
				}
				mutants, err := mutantsOf(path)
				if err != nil {
					return err
				}
				for _, m := range mutants {
					if number++; (number-first)%step != 0 {
						continue
					}
					if made++; *list {
						fmt.Fprintln(out, m)
						continue
					}
					switch result, err := try(ctx, path, m.source, t.packages, usual); {
					case ctx.Err() != nil:
						made--
						summary()
						return fmt.Errorf("interrupted at %s", m)
					case err != nil:
						return fmt.Errorf("%s: %w", m, err)
					default:
						if count[result]++; result == survived {
							fmt.Fprintln(out, m)
						}
					}
				}
			}
		}
	}
	if !*list {
		summary()
	}
	return nil
}

type result int

const (
	killed result = iota
	late          // the tests did not end, perhaps because the machine is busy
	survived
	noBuild
)

// bounded runs a command with a limit in KiB on the address space of each of its processes. Go
// cannot set the limit between fork and exec, and a limit on this process would stay.
const bounded = `ulimit -v "$1" && shift && exec "$@"`

// try runs the tests of the packages with another source in place of path.
func try(ctx context.Context, path string, source []byte, packages []string, most bounds) (result, error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	full, err := filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	other, overlay := filepath.Join(folder, filepath.Base(path)), filepath.Join(folder, "overlay.json")
	said, err := json.Marshal(map[string]map[string]string{"Replace": {full: other}})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(other, source, 0o600), os.WriteFile(overlay, said, 0o600)); err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, most.time)
	defer cancel()
	args := []string{"-c", bounded, "sh", strconv.FormatUint(most.memory>>10, 10), "go", "test", "-overlay", overlay, "-count=1", "-failfast", "-vet=off"}
	test := exec.CommandContext(limited, "sh", append(args, packages...)...)
	// The command has its own process group, so that the end of the context kills the tests and not
	// only go.
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) }
	output, err := test.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case limited.Err() != nil:
		return late, nil
	case err == nil:
		return survived, nil
	case !errors.As(err, &failed):
		return 0, err
	case strings.Contains(string(output), "[build failed]") || strings.Contains(string(output), "[setup failed]"):
		return noBuild, nil
	default:
		return killed, nil
	}
}
