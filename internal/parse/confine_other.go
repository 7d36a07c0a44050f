//go:build !linux

package parse

import (
	"errors"
	"io/fs"
	"os/exec"
)

// canConfineWriting reports whether a program can be restricted to writing in one folder.
const canConfineWriting = false

func ownedBy(fs.FileInfo, int) bool { return false }

func parserUser() int { return 0 }

func isolateNetwork(*exec.Cmd) {}

// apply reports all protections as missing.
func (sandbox) apply(applied *Confinement, _ []string) {
	for _, name := range []string{protectionUser, protectionPrivileges, protectionLimits, protectionLandlock, protectionSeccomp} {
		applied.record(name, errors.New("only Linux has it"))
	}
}

func enterableByAll(string) bool { return true }

func rootCache() string { return "" }

func makeReadableForAll(string) error { return nil }
