package parse

// How a child is kept from doing harm if a file takes control of it. The parent applies what it can
// when it starts the child; the child applies the rest to itself before it reads a file.
// Protections that the system does not offer are left out and reported.

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

// Confinement says which protections keep parsers from the rest of the machine.
type Confinement struct {
	Applied []string `json:"held,omitempty"`
	Missing []string `json:"missing,omitempty"` // each with the reason
}

func (c Confinement) String() string {
	text := strings.Join(c.Applied, ", ")
	if len(c.Missing) > 0 {
		text += "; without " + strings.Join(c.Missing, ", ")
	}
	return text
}

// record records whether a protection could be applied.
func (c *Confinement) record(name string, err error) {
	if err != nil {
		c.Missing = append(c.Missing, fmt.Sprintf("%s (%v)", name, err))
		return
	}
	c.Applied = append(c.Applied, name)
}

// Names of the protections.
const (
	protectionNetwork    = "a network namespace"
	protectionUser       = "a user without rights"
	protectionPrivileges = "no new privileges"
	protectionLimits     = "limits on resources"
	protectionLandlock   = "Landlock"
	protectionSeccomp    = "seccomp"
)

// sandboxVariable carries a sandbox to the child.
const sandboxVariable = "SLUICE_PARSER"

// sandbox tells a child how to confine itself.
type sandbox struct {
	CacheDir          string `json:"cache_dir,omitempty"` // folder of compiled code, which the child may only read
	Compile           bool   `json:"compile,omitempty"`   // fill CacheDir and exit; no file follows
	User              int    `json:"user,omitempty"`      // to switch to, when root; 0: none is available
	NetworkNamespace  bool   `json:"apart,omitempty"`     // the child has a network namespace
	NoNamespaceReason string `json:"why,omitempty"`       // why it has no network namespace
	Memory            int64  `json:"memory"`              // most bytes of memory
	CPU               int64  `json:"cpu"`                 // most seconds of processor time

	Program *sandboxProgram `json:"program,omitempty"` // to run instead of a parser
}

// sandboxProgram is a program of the system that runs in a sandbox. It may read the files named
// here, and no others.
type sandboxProgram struct {
	Path     string   `json:"path"`
	Args     []string `json:"args"`
	Tessdata string   `json:"tessdata,omitempty"` // a folder
	Folders  []string `json:"folders,omitempty"`
	// WorkDir is a folder that the program may write to, files of at most FileBytes; empty: it may
	// not write.
	WorkDir   string   `json:"own,omitempty"`
	FileBytes int64    `json:"file_bytes,omitempty"`
	Loader    []string `json:"loader,omitempty"`
	Libraries []string `json:"libraries,omitempty"`
}

func (c sandbox) environment() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot fail: strings and numbers only
	}
	return sandboxVariable + "=" + string(text)
}

func readSandbox() (c sandbox, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(sandboxVariable)), &c); err != nil {
		return c, fmt.Errorf("%s: only a parser pool may start this: %w", sandboxVariable, err)
	}
	return c, nil
}

// confine takes away the rights that parsing does not need from this process. skip names
// protections to leave out, for tests of the others.
func (c sandbox) confine(skip ...string) Confinement {
	// Load what is read once from the system's files while they are still accessible.
	_, _ = time.Now().Zone()
	var applied Confinement
	var noNamespace error
	if !c.NetworkNamespace {
		noNamespace = errors.New(c.NoNamespaceReason)
	}
	applied.record(protectionNetwork, noNamespace)
	c.apply(&applied, skip)
	return applied
}

// Probe starts a child as a pool does and returns its confinement on this machine.
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

// reportConfinement logs the protections that are missing, once.
func (r *poolRun) reportConfinement(report []byte) {
	r.reportOnce.Do(func() {
		var c Confinement
		if err := json.Unmarshal(report, &c); err != nil {
			c.record("a report of the child", err)
		}
		r.confinement.Store(&c)
		if len(c.Missing) > 0 {
			slog.Warn("parsers are not fully confined", "held", strings.Join(c.Applied, ", "), "missing", strings.Join(c.Missing, ", "))
		}
	})
}

// compile starts a child that gets no file to compile what PDFs need, so that the children that get
// files need not write to the cache. If that fails, each of them compiles for itself. There is no
// time limit: no file takes part, and without the cache each child would take as long on a loaded
// machine.
func (r *poolRun) compile() {
	r.compileOnce.Do(func() {
		c, err := r.launch(sandbox{CacheDir: r.options.CacheDir, Compile: true, User: r.user}, false)
		if err != nil {
			slog.Warn("cannot cache compiled code for parsers; each compiles it again", "error", err)
			return
		}
		done := make(chan struct{})
		go func() {
			select {
			case <-r.killed:
			case <-done:
				return
			}
			killGroup(c.cmd)
		}()
		_ = c.in.Close()
		err = c.wait()
		close(done)
		if err != nil {
			slog.Warn("cannot cache compiled code for parsers; each compiles it again", "error", err, "said", c.stderr.String())
		}
	})
}
