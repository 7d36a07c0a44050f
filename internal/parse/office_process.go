package parse

// The parent's side of conversions: LibreOffice, a program of the system, runs in a sandbox of its
// own for each file, with a folder of its own that is removed at the end. Only one regular file is
// read from the folder.

import (
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
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxOfficeMemory     = 2 << 30          // bytes of address space that LibreOffice may take
	officeTime          = 2 * time.Minute  // processor time for one file
	officeWallTime      = 10 * time.Minute // elapsed time: other processes have priority
	officeTotal         = time.Hour        // for all conversions of one file and of the files in it
	maxOfficeDisk       = 1 << 30          // bytes of all files that it writes
	maxConversions      = 1000             // most conversions for one file
	officeRestartStatus = 81               // exit status after it has created a profile, which asks for another start
	maxOfficeStarts     = 3
)

// office describes the installed LibreOffice and the files that it needs to start.
type office struct {
	program string   // soffice.bin: the script around it starts a shell
	loader  []string // the dynamic loader
	libs    []string
	parts   []string
}

// officeFolders are the folders that LibreOffice reads besides its own: its program, fonts, and
// data of the system.
var officeFolders = []string{"/usr/lib", "/usr/share", "/usr/local/share/fonts", "/etc/libreoffice", "/etc/fonts", "/var/cache/fontconfig", "/var/lib/libreoffice",
	"/var/spool/libreoffice", "/opt/libreoffice"}

// findOffice looks for soffice on PATH.
func findOffice(ctx context.Context) (*office, error) {
	script, err := exec.LookPath("soffice")
	if err != nil {
		return nil, err
	}
	if script, err = filepath.EvalSymlinks(script); err != nil {
		return nil, fmt.Errorf("find LibreOffice: %w", err)
	}
	o := &office{program: filepath.Join(filepath.Dir(script), "soffice.bin")}
	if _, err := os.Stat(o.program); err != nil {
		return nil, fmt.Errorf("find LibreOffice: %w", err)
	}
	for _, old := range oldFormats {
		if _, err := os.Stat(filepath.Join(filepath.Dir(script), old.library)); err == nil {
			o.parts = append(o.parts, old.part)
		}
	}
	o.loader, o.libs, err = libraries(ctx, o.program)
	return o, err
}

// officeOptions returns which formats are converted. The first call looks for LibreOffice.
func (r *poolRun) officeOptions(ctx context.Context) officeOptions {
	if r.options.NoOffice {
		return officeOptions{Reason: "Conversion is off: set SLUICE_PARSE_OFFICE to auto"}
	}
	r.findOfficeOnce.Do(func() {
		if r.office != nil {
			return // a test's
		}
		found, err := findOffice(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			slog.Warn("files in old Office formats are not converted", "error", err)
		case !canConfineWriting:
			slog.Warn("files in old Office formats are not converted: LibreOffice can be confined only on Linux")
		default:
			r.office = found
		}
	})
	if r.office == nil {
		return officeOptions{}
	}
	return officeOptions{Parts: r.office.parts}
}

// handleConversion converts one file. Its error is ctx's.
func (o *recogniser) handleConversion(ctx context.Context, c convertRequest, data []byte) (convertReply, []byte, error) {
	old, ok := oldFormats[c.Format]
	o.conversions++
	switch {
	case !ok || o.run.office == nil:
		return convertReply{Failure: "this conversion is not allowed here"}, nil, nil
	case o.conversions > maxConversions:
		return convertReply{Failure: "the parser sent too many requests"}, nil, nil
	case o.officeDeadline.IsZero():
		o.officeDeadline = time.Now().Add(officeTotal)
	case time.Now().After(o.officeDeadline):
		return convertReply{Reason: &schema.Reason{Code: schema.ReasonTimeout, Message: fmt.Sprintf(
			"Converting the files in it took more than %v. Split it.", officeTotal)}}, nil, nil
	}
	// The file's own time is stopped during conversion.
	if !o.setPaused(ctx, true) {
		return convertReply{}, nil, context.Cause(ctx)
	}
	defer o.setPaused(ctx, false)
	converted, err := o.run.convert(ctx, old, data, o.limits.Bytes, officeLimits{time: officeTime, memory: maxOfficeMemory, disk: maxOfficeDisk})
	var e *Error
	switch {
	case ctx.Err() != nil:
		return convertReply{}, nil, context.Cause(ctx)
	case errors.As(err, &e):
		return convertReply{Reason: &e.Reason}, nil, nil
	case err != nil:
		slog.WarnContext(ctx, "LibreOffice failed", "error", err)
		return convertReply{Failure: err.Error()}, nil, nil
	}
	return convertReply{}, converted, nil
}

// officeLimits bound one conversion.
type officeLimits struct {
	time         time.Duration // of the processor
	memory, disk int64
}

// officeSettings prevent LibreOffice from running macros, which conversion does not do anyway, and
// from following links.
const officeSettings = `<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="MacroSecurityLevel" oor:op="fuse"><value>3</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableMacrosExecution" oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableActiveContent" oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="BlockUntrustedRefererLinks" oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Calc/Content/Update"><prop oor:name="Link" oor:op="fuse"><value>2</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/Content/Update"><prop oor:name="Link" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
`

// convert runs LibreOffice to make a file of up to most bytes in a new format. It returns an
// *Error when a limit ended the conversion or LibreOffice cannot read the file.
func (r *poolRun) convert(ctx context.Context, old oldFormat, data []byte, limit int64, l officeLimits) (converted []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, officeWallTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "sluice-office-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for LibreOffice: %w", err)
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); removeErr != nil && err == nil {
			converted, err = nil, fmt.Errorf("remove the folder of LibreOffice: %w", removeErr)
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("make a folder for LibreOffice: %w", err)
	}
	if err := r.prepareFolder(dir, "in."+old.from, data); err != nil {
		return nil, fmt.Errorf("fill the folder of LibreOffice: %w", err)
	}
	args := []string{"--headless", "--invisible", "--norestore", "--nologo", "--nodefault", "--nofirststartwizard", "--nolockcheck",
		"-env:UserInstallation=file://" + filepath.Join(dir, "profile"), "--convert-to", old.to, "--outdir", filepath.Join(dir, "out"), filepath.Join(dir, "in."+old.from)}
	for n := 1; ; n++ {
		start := time.Now()
		restart, err := r.runOffice(ctx, dir, args, limit, l)
		r.dropSockets(start) // the next start would take them for a running LibreOffice
		if err != nil {
			return nil, err
		}
		if !restart || n == maxOfficeStarts {
			break
		}
	}
	return readConverted(dir, "in."+old.to, limit)
}

// prepareFolder creates the contents of the folder before LibreOffice starts, all owned by its
// user.
func (r *poolRun) prepareFolder(dir, name string, data []byte) error {
	for _, sub := range []string{"profile", "profile/user", "tmp", "out"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for path, content := range map[string][]byte{name: data, "profile/user/registrymodifications.xcu": []byte(officeSettings)} {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o600); err != nil {
			return err
		}
	}
	if r.user == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, r.user, r.user)
	})
}

// readConverted reads the file that LibreOffice made. Links that lead out of the folder are not
// followed.
func readConverted(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Join(dir, "out"))
	if err != nil {
		return nil, fmt.Errorf("read what LibreOffice made: %w", err)
	}
	defer func() { _ = root.Close() }() // opened for reading only
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(schema.ReasonBroken, "LibreOffice cannot read it: it is damaged, or needs a password. Save it again and send that.")
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("LibreOffice left no regular file: %w", err)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read what LibreOffice made: %w", err)
	}
	defer func() { _ = f.Close() }() // opened for reading only
	converted, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read what LibreOffice made: %w", err)
	}
	if int64(len(converted)) > limit {
		return nil, fail(schema.ReasonTooLarge, "The converted file has more than %s. Split it, or raise the limit.", schema.FormatBytes(limit))
	}
	return converted, nil
}

// dropSockets removes the sockets that LibreOffice's user created since a time: LibreOffice leaves
// one in /tmp, where its confinement lets it create but not remove sockets.
func (r *poolRun) dropSockets(since time.Time) {
	uid := r.user
	if uid == 0 {
		uid = os.Getuid()
	}
	// A file's modification time may be some milliseconds early.
	since = since.Add(-time.Second)
	found, _ := filepath.Glob(officeSockets + "/OSL_PIPE_*SingleOfficeIPC_*") // the pattern is valid
	for _, path := range found {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket && !info.ModTime().Before(since) && ownedBy(info, uid) {
			_ = os.Remove(path) // the end of another conversion may have removed it
		}
	}
}

// officeSockets is the folder where LibreOffice creates a socket, without which it does not start.
const officeSockets = "/tmp"

// runOffice runs LibreOffice once, in a sandbox. restart reports that LibreOffice must be started
// once more.
func (r *poolRun) runOffice(ctx context.Context, dir string, args []string, limit int64, l officeLimits) (restart bool, err error) {
	seconds := int64((l.time + time.Second - 1) / time.Second)
	c, err := r.startIn(sandbox{
		User: r.user, Memory: l.memory, CPU: seconds,
		Program: &sandboxProgram{Path: r.office.program, Args: args, Loader: r.office.loader, Libraries: r.office.libs, Folders: officeFolders,
			WorkDir: dir, FileBytes: max(limit, 64<<20)},
	})
	if err != nil {
		return false, err
	}
	_ = c.in.Close()
	done, watcherDone, full := make(chan struct{}), make(chan struct{}), false
	go func() {
		defer close(watcherDone)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				killGroup(c.cmd)
				return
			case <-r.killed:
				killGroup(c.cmd)
				return
			case <-ticker.C:
				if full = sizeOf(dir) > l.disk; full {
					killGroup(c.cmd)
					return
				}
			}
		}
	}()
	_, _ = io.Copy(io.Discard, c.out)
	waitErr := c.wait()
	close(done)
	<-watcherDone
	stderr := c.stderr.String()
	if strings.HasPrefix(stderr, "{") {
		var report string
		report, stderr, _ = strings.Cut(stderr, "\n")
		r.reportOfficeConfinement([]byte(report))
	}
	state := c.cmd.ProcessState
	switch {
	case full:
		return false, fail(schema.ReasonTooLarge, "Converting it took more than %s of disk. Split it.", schema.FormatBytes(l.disk))
	case context.Cause(ctx) != nil || waitErr != nil && state.UserTime()+state.SystemTime() >= time.Duration(seconds)*time.Second-time.Second/2:
		return false, fail(schema.ReasonTimeout, "LibreOffice did not convert it in %v of processor time. Split it, or save it in a new format.", l.time)
	case state.ExitCode() == officeRestartStatus:
		return true, nil
	case waitErr != nil && c.outOfMemory():
		return false, fail(schema.ReasonTooLarge, "Converting it needed more than %s of memory. Split it.", schema.FormatBytes(l.memory))
	case waitErr != nil && state.ExitCode() < 0:
		return false, fail(schema.ReasonBroken, "LibreOffice crashed on it. Save it in a new format and send that.").because(fmt.Errorf("%w: %s", waitErr, stderr))
	case waitErr != nil:
		return false, fmt.Errorf("LibreOffice: %w: %s", waitErr, stderr)
	}
	return false, nil
}

// sizeOf returns the approximate size in bytes of the files of a folder, which may be changing.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// reportOfficeConfinement logs the protections that LibreOffice's confinement is missing, once.
func (r *poolRun) reportOfficeConfinement(report []byte) {
	r.reportOfficeOnce.Do(func() {
		var c Confinement
		if err := json.Unmarshal(report, &c); err != nil {
			c.record("a report of the child", err)
		}
		r.officeConfinement.Store(&c)
		if len(c.Missing) > 0 {
			slog.Warn("LibreOffice is not fully confined", "held", strings.Join(c.Applied, ", "), "missing", strings.Join(c.Missing, ", "))
		}
	})
}
