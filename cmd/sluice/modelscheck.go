package main

// This file checks model packs. gpu-segmenter does it, as a child process that prints a report,
// because this program does not link ONNX Runtime.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/modelchild"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// notes returns where remarks are written: not into the JSON on standard output.
func (p packs) notes() io.Writer {
	if p.JSON {
		return os.Stderr
	}
	return os.Stdout
}

// checker checks packs with gpu-segmenter.
type checker struct {
	program string
	model   config.Model
}

// checking is the timeout of one check: loading a large graph takes a while.
const checking = 10 * time.Minute

// newChecker finds the programs and libraries that checking needs.
func newChecker(model config.Model) (checker, error) {
	program, err := modelchild.Find()
	if err == nil && model.ONNXRuntimeLib == "" {
		model.ONNXRuntimeLib, err = local.FindONNXRuntime()
	}
	return checker{program, model}, err
}

// check checks the pack in dir. If the pack cannot be loaded, it returns an error.
func (c checker) check(ctx context.Context, dir string) (modelpack.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, checking)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, "--check")
	cmd.Env = append(withoutSettings(), "SLUICE_MODEL_PACK="+dir, "SLUICE_MODEL_PROVIDER="+c.model.ModelProvider,
		"SLUICE_MODEL_THREADS="+fmt.Sprint(c.model.ModelThreads), "SLUICE_ONNXRUNTIME_LIB="+c.model.ONNXRuntimeLib, modelpack.NoTelemetry+"=1")
	cmd.WaitDelay = 5 * time.Second
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		message := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "gpu-segmenter: ")
		if message == "" || ctx.Err() != nil {
			return modelpack.Report{}, fmt.Errorf("gpu-segmenter could not check %s: %w", dir, errors.Join(ctx.Err(), err))
		}
		return modelpack.Report{}, fmt.Errorf("%s: %w", message, schema.ErrInvalid)
	}
	var report modelpack.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return report, fmt.Errorf("read the report of gpu-segmenter on %s: %w", dir, err)
	}
	return report, nil
}

// validate implements modelpack.Options.Check.
func (c checker) validate(ctx context.Context, dir string) error {
	report, err := c.check(ctx, dir)
	if err == nil && len(report.Problems) > 0 {
		err = schema.Invalid("model", "%s", strings.Join(report.Problems, "; "))
	}
	return err
}

type modelsCheck struct {
	packs
	config.Model
	Pack string `arg:"" optional:"" help:"Name or folder of a pack; the one in use when left out."`
}

func (c *modelsCheck) Run(ctx context.Context) error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	named := c.Pack
	if named == "" {
		named = c.ModelPack
	}
	path, err := modelpack.Find(dir, named)
	if err != nil {
		return err
	}
	checker, err := newChecker(c.Model)
	if err != nil {
		return err
	}
	report, err := checker.check(ctx, path)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(report); err != nil {
			return err
		}
	} else if err := printReport(path, report); err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return errSilent
	}
	return nil
}

func printReport(path string, report modelpack.Report) error {
	info := report.Info
	line := func(name, format string, args ...any) {
		fmt.Printf("%-12s%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("pack", "%s %s in %s", info.Pack, info.Version, path)
	line("provider", "%s", info.Provider)
	var operations []string
	for _, op := range info.Operations {
		operations = append(operations, string(op))
	}
	line("operations", "%s", strings.Join(operations, ", "))
	if info.Dimension > 0 {
		line("vectors", "dimension %d, space %s", info.Dimension, info.Space)
	}
	units := map[wire.ModelOp]string{}
	for _, o := range wire.ModelOperations() {
		units[o.Name] = o.Limit
	}
	for _, op := range slices.Sorted(maps.Keys(info.Limits)) {
		line("limit", "%s: %d %s", op, info.Limits[op], units[op])
	}
	for _, op := range slices.Sorted(maps.Keys(info.Scripts)) {
		line("scripts", "%s: %s", op, strings.Join(info.Scripts[op], ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(info.Calibrated)) {
		line("threshold", "%s: %.4g", name, info.Calibrated[name])
	}
	for _, note := range info.Notes {
		line("note", "%s", note)
	}
	fmt.Println()
	err := table("GRAPH SIZE GOLDENS DIFFERENCE TOLERANCE PADDING", func(row func(...any)) {
		for _, g := range report.Graphs {
			difference := "-"
			if g.Goldens > 0 {
				difference = fmt.Sprintf("%.1e", g.Worst)
			}
			row(g.Section, bytesText(g.Bytes), g.Goldens, difference, fmt.Sprintf("%.0e", g.Tolerance), fmt.Sprintf("%.1e", g.Padding))
		}
	})
	if err != nil {
		return err
	}
	fmt.Println()
	for _, p := range report.Problems {
		fmt.Println("wrong: " + printable(p))
	}
	if len(report.Problems) == 0 {
		fmt.Println("the pack works")
	}
	return nil
}
