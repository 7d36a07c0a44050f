package parse

// How a child is kept from doing harm, should a file take it over. What the parent can do it does
// when it starts the child; the rest the child does to itself before it reads a file. What the
// system doesn't offer is left out, and told.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Confinement says what keeps parsers from the rest of the machine.
type Confinement struct {
	Held    []string `json:"held,omitempty"`
	Missing []string `json:"missing,omitempty"` // each with the reason
}

func (c Confinement) String() string {
	text := strings.Join(c.Held, ", ")
	if len(c.Missing) > 0 {
		text += "; without " + strings.Join(c.Missing, ", ")
	}
	return text
}

// try notes whether a protection could be had.
func (c *Confinement) try(what string, err error) {
	if err != nil {
		c.Missing = append(c.Missing, fmt.Sprintf("%s (%v)", what, err))
		return
	}
	c.Held = append(c.Held, what)
}

// What protections are called.
const (
	heldNetwork    = "a network namespace"
	heldUser       = "a user without rights"
	heldPrivileges = "no new privileges"
	heldLimits     = "limits on resources"
	heldLandlock   = "Landlock"
	heldSeccomp    = "seccomp"
)

// cellVariable carries a cell to the child.
const cellVariable = "SLUICE_PARSER"

// cell is what a child needs to know to confine itself.
type cell struct {
	CacheDir string `json:"cache_dir,omitempty"` // compiled code, to be read alone
	Compile  bool   `json:"compile,omitempty"`   // fill it and end; no file comes
	User     int    `json:"user,omitempty"`      // to become, when root; 0 for nobody
	Apart    bool   `json:"apart,omitempty"`     // it has a network namespace
	Why      string `json:"why,omitempty"`       // it has none
	Memory   int64  `json:"memory"`              // bytes that it may have
	CPU      int64  `json:"cpu"`                 // seconds that it may run

	Program *cellProgram `json:"program,omitempty"` // to become, instead of a parser
}

// cellProgram is a program of the system in a cell. It may read these files, and no other.
type cellProgram struct {
	Path     string   `json:"path"`
	Args     []string `json:"args"`
	Tessdata string   `json:"tessdata,omitempty"` // a folder
	Folders  []string `json:"folders,omitempty"`
	// Own is a folder that it may write to, files of at most FileBytes; empty: it writes nothing.
	Own       string   `json:"own,omitempty"`
	FileBytes int64    `json:"file_bytes,omitempty"`
	Loader    []string `json:"loader,omitempty"`
	Libraries []string `json:"libraries,omitempty"`
}

func (c cell) environment() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers
	}
	return cellVariable + "=" + string(text)
}

func readCell() (c cell, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(cellVariable)), &c); err != nil {
		return c, fmt.Errorf("%s: only a parser pool may start this: %w", cellVariable, err)
	}
	return c, nil
}

// confine takes from this process what parsing doesn't need. skip leaves protections out, for tests
// of the others.
func (c cell) confine(skip ...string) Confinement {
	// What is read once from the system's files must be read before they are out of reach.
	_, _ = time.Now().Zone()
	var held Confinement
	var apart error
	if !c.Apart {
		apart = errors.New(c.Why)
	}
	held.try(heldNetwork, apart)
	c.drop(&held, skip)
	return held
}

// Probe starts a child as a pool does and returns what confines it here.
func Probe(ctx context.Context, o PoolOptions) (Confinement, error) {
	o.Workers = 1
	p, err := NewPool(o)
	if err != nil {
		return Confinement{}, err
	}
	if err := p.Start(ctx); err != nil {
		return Confinement{}, err
	}
	r := p.run
	_, err = p.Parse(ctx, "probe.txt", "", []byte("Nothing."))
	if err = errors.Join(err, p.Stop(context.WithoutCancel(ctx))); err != nil {
		return Confinement{}, err
	}
	return *r.confinement.Load(), nil
}

// reportConfinement logs what is missing, once.
func (r *poolRun) reportConfinement(words []byte) {
	r.told.Do(func() {
		var c Confinement
		if err := json.Unmarshal(words, &c); err != nil {
			c.try("a report of the child", err)
		}
		r.confinement.Store(&c)
		if len(c.Missing) > 0 {
			slog.Warn("parsers are not fully confined", "held", strings.Join(c.Held, ", "), "missing", strings.Join(c.Missing, ", "))
		}
	})
}

// compile has a child that sees no file compile what PDFs need, so that those that do see files
// need not write. Where that fails they compile for themselves. It takes as long as it takes: no
// file has a part in it, and each of them would take as long on a loaded machine.
func (r *poolRun) compile() {
	r.compiled.Do(func() {
		c, err := r.launch(cell{CacheDir: r.options.CacheDir, Compile: true, User: r.user}, false)
		if err != nil {
			slog.Warn("cannot cache compiled code for parsers; each compiles it again", "error", err)
			return
		}
		over := make(chan struct{})
		go func() {
			select {
			case <-r.killed:
			case <-over:
				return
			}
			killGroup(c.cmd)
		}()
		_ = c.in.Close()
		err = c.wait()
		close(over)
		if err != nil {
			slog.Warn("cannot cache compiled code for parsers; each compiles it again", "error", err, "said", c.stderr.String())
		}
	})
}
