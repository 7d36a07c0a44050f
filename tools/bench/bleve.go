package main

// This file communicates with tools/bench-bleve, the program that runs Bleve.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// bleve is an index in Bleve.
type bleve struct {
	*externalIndex
	encoder *json.Encoder
}

// externalIndex is a program with another index. It reads requests from its standard input and
// replies in JSON.
type externalIndex struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	decoder *json.Decoder
	stderr  strings.Builder // its error output
}

// startExternalIndex runs a program on a new folder. If no path is given, it is the one beside this
// program; buildCommand names the command that builds it. When ctx ends, the program is killed.
func startExternalIndex(ctx context.Context, name, program, buildCommand, folder string) (*externalIndex, error) {
	program, err := siblingProgram(program, name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `%s` builds it", err, buildCommand)
	}
	r := &externalIndex{name: name, cmd: exec.CommandContext(ctx, program, folder)}
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	r.decoder = json.NewDecoder(bufio.NewReader(out))
	return r, nil
}

// reply reads a reply, unless writing the request failed with err.
func (r *externalIndex) reply(err error) (out bleveReply, _ error) {
	if err == nil {
		err = r.decoder.Decode(&out)
	}
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	return out, err
}

// close ends the program. The workbench removes its folder.
func (r *externalIndex) close() error {
	_ = r.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = r.cmd.Process.Kill() })
	defer kill.Stop()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w %s", r.name, err, r.stderr.String())
	}
	return nil
}

// bleveRequest and bleveReply are the messages of tools/bench-bleve.
type bleveRequest struct {
	Op      string   `json:"op"`
	Texts   []string `json:"texts,omitempty"`
	First   int      `json:"first,omitempty"`
	Batch   int      `json:"batch,omitempty"`
	Writers int      `json:"writers,omitempty"`
	Queries []string `json:"queries,omitempty"`
	K       int      `json:"k,omitempty"`
	Hits    bool     `json:"hits,omitempty"`
}

type bleveReply struct {
	Error     string      `json:"error"`
	Seconds   float64     `json:"seconds"`
	Found     int         `json:"found"`
	Hits      [][]int     `json:"hits"`
	Scores    [][]float64 `json:"scores"`
	Bytes     int64       `json:"bytes"`
	Documents int         `json:"documents"`
	Terms     int         `json:"terms"`
}

// startBleve runs tools/bench-bleve.
func startBleve(program, folder string) (*bleve, error) {
	r, err := startExternalIndex(context.Background(), "bench-bleve", program, "make bench", folder)
	if err != nil {
		return nil, err
	}
	return &bleve{r, json.NewEncoder(r.stdin)}, nil
}

// ask performs one operation. The time in the reply is Bleve's only. When ctx ends, the program is
// killed.
func (b *bleve) ask(ctx context.Context, r bleveRequest) (bleveReply, error) {
	stop := context.AfterFunc(ctx, func() { _ = b.cmd.Process.Kill() })
	defer stop()
	out, err := b.reply(b.encoder.Encode(r))
	if err != nil {
		return out, fmt.Errorf("bleve: %s: %w %s", r.Op, err, b.stderr.String())
	}
	return out, nil
}

// took returns the time in the reply.
func (r bleveReply) took() time.Duration { return time.Duration(r.Seconds * float64(time.Second)) }
