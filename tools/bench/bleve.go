package main

// This file speaks with tools/bench-bleve, the program that is Bleve here.

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

// bleve is an index of the other side's.
type bleve struct {
	*rival
	encoder *json.Encoder
}

// rival is a program that is another index: it is told what to do on its standard input, and
// replies in JSON.
type rival struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	decoder *json.Decoder
	words   strings.Builder // what it said when it failed
}

// startRival runs a program, the one beside this one when none is named, on a new folder. made says
// what builds it. When ctx ends the program is killed.
func startRival(ctx context.Context, name, program, made, folder string) (*rival, error) {
	program, err := beside(program, name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `%s` builds it", err, made)
	}
	r := &rival{name: name, cmd: exec.CommandContext(ctx, program, folder)}
	r.cmd.Stderr = &r.words
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

// reply reads one, where writing the request went well.
func (r *rival) reply(err error) (out bleveReply, _ error) {
	if err == nil {
		err = r.decoder.Decode(&out)
	}
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	return out, err
}

// close ends the program. Its folder goes with the workbench's.
func (r *rival) close() error {
	_ = r.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = r.cmd.Process.Kill() })
	defer kill.Stop()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w %s", r.name, err, r.words.String())
	}
	return nil
}

// bleveRequest and bleveReply are as tools/bench-bleve has them.
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
	r, err := startRival(context.Background(), "bench-bleve", program, "make bench", folder)
	if err != nil {
		return nil, err
	}
	return &bleve{r, json.NewEncoder(r.stdin)}, nil
}

// ask has one thing done; the time in the reply is Bleve's alone. When ctx ends the program is
// killed.
func (b *bleve) ask(ctx context.Context, r bleveRequest) (bleveReply, error) {
	stop := context.AfterFunc(ctx, func() { _ = b.cmd.Process.Kill() })
	defer stop()
	out, err := b.reply(b.encoder.Encode(r))
	if err != nil {
		return out, fmt.Errorf("bleve: %s: %w %s", r.Op, err, b.words.String())
	}
	return out, nil
}

// took is the reply's time.
func (r bleveReply) took() time.Duration { return time.Duration(r.Seconds * float64(time.Second)) }
