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
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	encoder *json.Encoder
	decoder *json.Decoder
	words   strings.Builder // what it said when it failed
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

// startBleve runs the program, the one beside this one when none is named, on a new folder.
func startBleve(program, folder string) (*bleve, error) {
	program, err := beside(program, "bench-bleve")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `make bench` builds it", err)
	}
	b := &bleve{cmd: exec.Command(program, folder)}
	b.cmd.Stderr = &b.words
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		b.stdin, err = b.cmd.StdinPipe()
	}
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start bench-bleve: %w", err)
	}
	b.encoder, b.decoder = json.NewEncoder(b.stdin), json.NewDecoder(bufio.NewReader(out))
	return b, nil
}

// ask has one thing done; the time in the reply is Bleve's alone. When ctx ends the program is killed.
func (b *bleve) ask(ctx context.Context, r bleveRequest) (bleveReply, error) {
	stop := context.AfterFunc(ctx, func() { _ = b.cmd.Process.Kill() })
	defer stop()
	var out bleveReply
	err := b.encoder.Encode(r)
	if err == nil {
		err = b.decoder.Decode(&out)
	}
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	if err != nil {
		return out, fmt.Errorf("bleve: %s: %w %s", r.Op, err, b.words.String())
	}
	return out, nil
}

// took is the reply's time.
func (r bleveReply) took() time.Duration { return time.Duration(r.Seconds * float64(time.Second)) }

// close ends the program. Its folder goes with the workbench's.
func (b *bleve) close() error {
	_ = b.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = b.cmd.Process.Kill() })
	defer kill.Stop()
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("stop bench-bleve: %w %s", err, b.words.String())
	}
	return nil
}
