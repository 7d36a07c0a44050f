package main

// This file reads the plans of --plan-file, which are compared with those of the server.

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/schema"
)

// planFolder are plans that were read from files, in a temporary folder.
type planFolder struct {
	names  []string
	folder string // empty: there are none
}

func (p planFolder) remove() {
	if p.folder != "" {
		_ = os.RemoveAll(p.folder) // it is in the system's temporary folder
	}
}

// planFiles reads --plan-file. It copies each file under its plan's name, which a server's folder
// of plans requires.
func (c *evalCommand) planFiles() (out planFolder, err error) {
	if len(c.PlanFile) == 0 {
		return planFolder{}, nil
	}
	if out.folder, err = os.MkdirTemp("", "sluice-plans-"); err != nil {
		return out, fmt.Errorf("make a folder for plans: %w", err)
	}
	defer func() {
		if err != nil {
			out.remove()
		}
	}()
	for _, path := range c.PlanFile {
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil || len(files) == 0 {
				return out, schema.Invalid("plan-file", "%s has no .yaml files", path)
			}
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return out, fmt.Errorf("read a plan: %w", err)
			}
			plan, err := plan.Parse(text)
			if err != nil {
				return out, fmt.Errorf("plan %s: %w", file, err)
			}
			if filepath.Base(plan.Name) != plan.Name {
				return out, fmt.Errorf("plan %s: %w", file, schema.Invalid("name", "%q cannot be the name of a file", plan.Name))
			}
			if err := os.WriteFile(filepath.Join(out.folder, plan.Name+".yaml"), text, 0o600); err != nil {
				return out, fmt.Errorf("copy plan %s: %w", file, err)
			}
			out.names = append(out.names, plan.Name)
		}
	}
	return out, nil
}
