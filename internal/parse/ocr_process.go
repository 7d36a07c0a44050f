package parse

// The parent's side of text recognition: tesseract, a program of the system, runs in a sandbox of
// its own for each image. The child that parses the file makes the image, requests recognition over
// its pipe, and reads the answer: the parent passes pixels and words on and interprets neither.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxOCRMemory       = 1 << 30  // bytes of address space that tesseract may take
	maxOCROutput       = 32 << 20 // most bytes of its output
	ocrWallFactor      = 10       // ratio of elapsed time to processor time: other processes have priority
	ocrRequestsPerPage = 5        // requests per page: its text, twice, its orientation, and the text of the turned page, twice
)

// ocrTotalTime bounds the time for all pages of one document together.
const ocrTotalTime = time.Hour

// tesseract describes the installed program, its data, and the files that it needs to start.
type tesseract struct {
	program  string
	loader   []string // programs that the kernel starts with it: the dynamic loader
	libs     []string // files that it reads to start
	tessdata string   // the folder of traineddata
}

// traineddata reports whether data of this name is installed.
func (t *tesseract) traineddata(name string) bool {
	info, err := os.Stat(filepath.Join(t.tessdata, name+".traineddata"))
	return err == nil && info.Mode().IsRegular()
}

var (
	tessdataLine = regexp.MustCompile(`List of available languages in "([^"]+)"`)
	libraryLine  = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)`)
)

// findTesseract looks for the program on PATH.
func findTesseract(ctx context.Context) (*tesseract, error) {
	program, err := exec.LookPath("tesseract")
	if err != nil {
		return nil, err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil, fmt.Errorf("find tesseract: %w", err)
	}
	output, err := exec.CommandContext(ctx, program, "--list-langs").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its languages: %w: %s", program, err, bytes.TrimSpace(output))
	}
	found := tessdataLine.FindSubmatch(output)
	if found == nil {
		return nil, fmt.Errorf("%s --list-langs does not name its folder of data; version 5 does", program)
	}
	t := &tesseract{program: program}
	if t.tessdata, err = filepath.Abs(string(found[1])); err != nil {
		return nil, fmt.Errorf("find the data of tesseract: %w", err)
	}
	t.loader, t.libs, err = libraries(ctx, program)
	return t, err
}

// libraries returns the dynamic loader of a program and the files that the loader opens for it. On
// systems other than Linux nothing confines the program to them.
func libraries(ctx context.Context, program string) (loader, libs []string, err error) {
	output, err := exec.CommandContext(ctx, "ldd", program).Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, nil, nil
	case err != nil && bytes.Contains(output, []byte("not a dynamic executable")):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("ask ldd for the libraries of %s: %w", program, err)
	}
	libs = []string{"/etc/ld.so.cache"}
	for _, m := range libraryLine.FindAllSubmatch(output, -1) {
		path, err := filepath.EvalSymlinks(string(m[1]))
		if err != nil {
			return nil, nil, fmt.Errorf("find a library of %s: %w", program, err)
		}
		libs = append(libs, path)
		if bytes.HasPrefix(m[0], []byte("\t/")) {
			loader = append(loader, path)
		}
	}
	return loader, libs, nil
}

// recogniseRequest is the child's request: an image of Width by Height grey pixels, which follow as
// a frame.
type recogniseRequest struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	DPI    int `json:"dpi"`
	// Block treats the whole page as one block of text.
	Block bool `json:"block,omitempty"`
	// Orientation requests the page's orientation instead of its text.
	Orientation bool `json:"orientation,omitempty"`
}

// recogniseReply is the answer: tesseract's output, or why there is none.
type recogniseReply struct {
	Output  []byte         `json:"said,omitempty"`
	Reason  *schema.Reason `json:"reason,omitempty"`  // the page is to blame
	Failure string         `json:"failure,omitempty"` // tesseract, or this machine
}

// arguments returns tesseract's arguments for an image on its standard input.
func (t *tesseract) arguments(r recogniseRequest, language string) []string {
	args := []string{"stdin", "stdout", "--tessdata-dir", t.tessdata, "--dpi", strconv.Itoa(min(max(r.DPI, 70), 600))}
	if r.Orientation {
		return append(args, "--psm", "0", "-l", osdData)
	}
	layout := "3" // found by tesseract
	if r.Block {
		layout = "6"
	}
	return append(args, "--psm", layout, "--oem", "1", "-l", language, "-c", "tessedit_create_tsv=1")
}

// recogniser answers the requests of one file.
type recogniser struct {
	run      *poolRun
	options  ocrOptions
	limits   Limits
	paused   chan<- bool // receives true when a recognition begins, false when it ends
	requests int
	deadline time.Time

	conversions    int
	officeDeadline time.Time
}

// maxRequestPixels returns the most pixels of an image in a request: correcting the skew enlarges
// an image.
func maxRequestPixels(l Limits) int { return 2 * l.OCRPixels }

// handle recognises one image. Its error is ctx's.
func (o *recogniser) handle(ctx context.Context, r recogniseRequest, pixels []byte) (recogniseReply, error) {
	o.requests++
	switch {
	case !o.options.Enabled:
		return recogniseReply{Failure: "text recognition is not allowed here"}, nil
	case o.requests > o.limits.OCRPages*ocrRequestsPerPage:
		return recogniseReply{Failure: "the parser sent too many requests"}, nil
	case r.Width < 1 || r.Height < 1 || len(pixels) > maxRequestPixels(o.limits) || r.Width > len(pixels) || len(pixels)/r.Width != r.Height || len(pixels)%r.Width != 0:
		return recogniseReply{Failure: fmt.Sprintf("%d bytes are not an image of %d by %d pixels", len(pixels), r.Width, r.Height)}, nil
	case o.deadline.IsZero():
		o.deadline = time.Now().Add(ocrTotalTime)
	case time.Now().After(o.deadline):
		return recogniseReply{Reason: &schema.Reason{Code: schema.ReasonTimeout, Message: fmt.Sprintf(
			"the document's pages took more than %v to recognise; split the file", ocrTotalTime)}}, nil
	}
	// The file's own time is stopped during recognition.
	if !o.setPaused(ctx, true) {
		return recogniseReply{}, context.Cause(ctx)
	}
	defer o.setPaused(ctx, false)
	t := o.run.tesseract
	output, err := o.run.recognise(ctx, t, t.arguments(r, o.options.Data), r, pixels, o.limits.OCRTime)
	var e *Error
	switch {
	case ctx.Err() != nil:
		return recogniseReply{}, context.Cause(ctx)
	case errors.As(err, &e):
		return recogniseReply{Reason: &e.Reason}, nil
	case err != nil:
		return recogniseReply{Failure: err.Error()}, nil
	}
	return recogniseReply{Output: output}, nil
}

func (o *recogniser) setPaused(ctx context.Context, paused bool) bool {
	select {
	case o.paused <- paused:
		return true
	case <-ctx.Done():
		return false
	}
}

// recognise runs tesseract over one image, in a sandbox, and returns its output. It returns an
// *Error when a limit ended the program. limit is of processor time.
func (r *poolRun) recognise(ctx context.Context, t *tesseract, args []string, image recogniseRequest, pixels []byte, limit time.Duration) ([]byte, error) {
	return r.recogniseWithin(ctx, t, args, image, pixels, limit, maxOCRMemory)
}

// reportOCRConfinement logs the protections that tesseract's confinement is missing, once.
func (r *poolRun) reportOCRConfinement(report []byte) {
	r.reportOCROnce.Do(func() {
		var c Confinement
		if err := json.Unmarshal(report, &c); err != nil {
			c.record("a report of the child", err)
		}
		r.ocrConfinement.Store(&c)
		if len(c.Missing) > 0 {
			slog.Warn("tesseract is not fully confined", "held", strings.Join(c.Applied, ", "), "missing", strings.Join(c.Missing, ", "))
		}
	})
}

// recogniseWithin is recognise with a memory limit in bytes.
func (r *poolRun) recogniseWithin(ctx context.Context, t *tesseract, args []string, image recogniseRequest, pixels []byte, limit time.Duration, memory int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, ocrWallFactor*limit)
	defer cancel()
	seconds := int64((limit + time.Second - 1) / time.Second)
	c, err := r.startIn(sandbox{
		User: r.user, Memory: memory, CPU: seconds,
		Program: &sandboxProgram{Path: t.program, Args: args, Tessdata: t.tessdata, Loader: t.loader, Libraries: t.libs},
	})
	if err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		// If the program ends before it has read everything, its own error says why.
		if _, err := fmt.Fprintf(c.in, "P5\n%d %d\n255\n", image.Width, image.Height); err == nil {
			_, _ = c.in.Write(pixels)
		}
		_ = c.in.Close()
	}()
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		killGroup(c.cmd)
	})
	output, readErr := io.ReadAll(io.LimitReader(c.out, maxOCROutput+1))
	if len(output) > maxOCROutput {
		killGroup(c.cmd)
	}
	waitErr := c.wait()
	if !stop() {
		<-killed
	}
	<-written
	stderr := c.stderr.String()
	if strings.HasPrefix(stderr, "{") {
		var report string
		report, stderr, _ = strings.Cut(stderr, "\n")
		r.reportOCRConfinement([]byte(report))
	}
	state := c.cmd.ProcessState
	used := state.UserTime() + state.SystemTime()
	switch {
	case len(output) > maxOCROutput:
		return nil, fail(schema.ReasonTooLarge, "its text has more than %s", schema.FormatBytes(maxOCROutput))
	case context.Cause(ctx) != nil || waitErr != nil && used >= time.Duration(seconds)*time.Second-time.Second/2:
		return nil, fail(schema.ReasonTimeout, "its text was not recognised in %v; simplify the page, or raise SLUICE_PARSE_OCR_TIME", limit)
	case waitErr != nil && c.outOfMemory():
		return nil, fail(schema.ReasonTooLarge, "recognising its text needed more than %s of memory", schema.FormatBytes(memory))
	case waitErr != nil:
		return nil, fmt.Errorf("tesseract: %w: %s", waitErr, stderr)
	case readErr != nil && !errors.Is(readErr, fs.ErrClosed):
		return nil, fmt.Errorf("read what tesseract says: %w", readErr)
	}
	return output, nil
}
