package main

// This file finds the model pack that is shipped with Sluice.

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// findPack returns the folder named, else the first that has a pack: below the working folder, beside the program's
// folder, or where packages put it.
func findPack(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	const shipped = "models/default"
	places := []string{shipped}
	if program, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		places = append(places, filepath.Join(filepath.Dir(program), "..", shipped))
	}
	places = append(places, filepath.Join("/usr/share/sluice", shipped))
	for _, place := range places {
		if _, err := os.Stat(filepath.Join(place, "manifest.yaml")); err == nil {
			return filepath.Abs(place)
		}
	}
	return "", schema.Invalid("SLUICE_MODEL_PACK", "is not set and there is no pack in %s: set it to a folder with a manifest.yaml", strings.Join(places, ", "))
}
