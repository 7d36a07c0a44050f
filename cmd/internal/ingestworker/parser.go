package ingestworker

// The parser pool. Its child processes run this same program with a hidden argument.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle/nice"
	"github.com/sluice-rag/sluice/internal/parse"
	"github.com/sluice-rag/sluice/schema"
)

// childArgument is the argument with which this program runs as a parser child.
const childArgument = "parse-child"

// maxBytes is the maximum size of a file to parse. Uploads have their own, lower limit.
const maxBytes = 1 << 30

// RunIfParseChild runs a parser child if the process was started as one, and reports whether it
// did; main returns then. main must call it first.
func RunIfParseChild() bool {
	if len(os.Args) != 2 || os.Args[1] != childArgument {
		return false
	}
	// Lower the priority of the child, which leads a process group of its own. If that fails, it
	// parses all the same.
	_ = nice.Own()
	if err := parse.RunChild(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "parser:", err)
		os.Exit(1)
	}
	return true
}

// pool adapts a parse.Pool to ingest.Parser.
type pool struct{ *parse.Pool }

func parsers(s Settings) (pool, error) {
	program, err := os.Executable()
	if err != nil {
		return pool{}, fmt.Errorf("find this program, to run parsers: %w", err)
	}
	p, err := parse.NewPool(parse.PoolOptions{
		Command: childOf(program),
		Workers: s.ParseWorkers,
		Limits: parse.Limits{
			Bytes: maxBytes, Pages: s.ParsePages, TextBytes: int(s.ParseText << 20), Time: s.ParseTimeout,
			OCRPages: s.ParseOCRPages, OCRPixels: s.ParseOCRPixels * 1_000_000, OCRTime: s.ParseOCRTime,
		},
		MemoryLimit: s.ParseMemory << 20,
		NoOCR:       s.ParseOCR == "off",
		NoOffice:    s.ParseOffice == "off",
		CacheDir:    codeCache(),
	})
	return pool{p}, err
}

// Parsers returns a pool that parses as ingestion does with these settings. The program must call
// RunIfParseChild.
func Parsers(s config.Parse) (*parse.Pool, error) {
	p, err := parsers(Settings{Parse: s})
	return p.Pool, err
}

func childOf(program string) func() *exec.Cmd {
	return func() *exec.Cmd { return exec.Command(program, childArgument) }
}

// Confinement describes how parsers are isolated from the rest of this machine. The program must
// call RunIfParseChild.
func Confinement(ctx context.Context) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, to run parsers: %w", err)
	}
	c, err := parse.Probe(ctx, parse.PoolOptions{Command: childOf(program)})
	return c.String(), err
}

// codeCache returns the folder in which compiled code is kept between runs, or "" if there is none.
func codeCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir = filepath.Join(dir, "sluice", "parsers")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

// Parse implements ingest.Parser.
func (p pool) Parse(ctx context.Context, name, mediaType, language string, data []byte) (schema.Parsed, error) {
	parsed, err := p.ParseFile(ctx, parse.NamedFile{Name: name, MediaType: mediaType, Language: language, Data: data})
	var refused *parse.Error
	switch {
	case errors.As(err, &refused):
		return parsed, &ingest.FileError{Reason: refused.Reason, Err: err}
	case errors.Is(err, parse.ErrCrashed):
		return parsed, &ingest.FileError{Reason: schema.Reason{Code: schema.ReasonCrashed, Message: err.Error()}, Err: err}
	case errors.Is(err, parse.ErrStopped):
		return parsed, fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
	}
	return parsed, err
}
