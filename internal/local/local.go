// Package local runs the real servers that Sluice needs on one machine: PostgreSQL as a child
// process, NATS in this process, and Temporal as a child process. `sluice up` and all tests use it.
//
// Each part is a lifecycle.Service with a directory of its own. If a part is killed, with us or
// alone, the next start on its directory works.
package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Host is the address that all parts listen on. It is reachable only from this machine.
const Host = "127.0.0.1"

// Home returns the directory for everything that Sluice stores on this machine outside the data
// directories that a user names: SLUICE_HOME if set, /var/lib/sluice for root, else
// ~/.local/share/sluice (or below XDG_DATA_HOME).
func Home() (string, error) {
	if home := os.Getenv("SLUICE_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return "", fmt.Errorf("SLUICE_HOME: %w", err)
		}
		return abs, nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/sluice", nil
	}
	if xdg := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "sluice"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for Sluice's files; set SLUICE_HOME: %w", err)
	}
	return filepath.Join(home, ".local", "share", "sluice"), nil
}

// ToolsDir returns the directory for what set-up builds or fetches: the Temporal server and the
// ONNX Runtime library.
func ToolsDir() (string, error) {
	home, err := Home()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "tools"), nil
}

// ErrMissing is wrapped by errors that say that a part is not installed. Their text says what to
// install.
var ErrMissing = errors.New("missing")

// ErrInUse is wrapped if another process runs a part on the same directory.
var ErrInUse = errors.New("in use by another process")

// checkOptions checks the options that all parts have, and sets defaults.
func checkOptions(part string, dir *string, port int, log **slog.Logger) error {
	if *dir == "" {
		return fmt.Errorf("local %s: Dir: needed", part)
	}
	if port < 0 || port > 65535 {
		return fmt.Errorf("local %s: Port: %d is not between 0 and 65535", part, port)
	}
	absolute, err := filepath.Abs(*dir)
	if err != nil {
		return fmt.Errorf("local %s: Dir: %w", part, err)
	}
	*dir = absolute
	if *log == nil {
		*log = slog.New(slog.DiscardHandler)
	}
	return nil
}
