//go:build !linux

package parse

import (
	"errors"
	"io/fs"
	"os/exec"
)

// confinesWriting reports whether a program can be restricted to writing in one folder.
const confinesWriting = false

func ownedBy(fs.FileInfo, int) bool { return false }

func parserUser() int { return 0 }

func isolateNetwork(*exec.Cmd) {}

// drop reports all protections as missing.
func (cell) drop(held *Confinement, _ []string) {
	for _, what := range []string{heldUser, heldPrivileges, heldLimits, heldLandlock, heldSeccomp} {
		held.try(what, errors.New("only Linux has it"))
	}
}

func forAll(string) bool { return true }

func rootCache() string { return "" }

func openToAll(string) error { return nil }
