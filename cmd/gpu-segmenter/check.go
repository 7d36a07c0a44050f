package main

// This file finds the model pack and the library, and checks them for `sluice models check`.

import (
	"context"
	"encoding/json"
	"io"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/local"
)

// find sets an empty model pack to the shipped one, and an empty path of the ONNX Runtime library
// to the library that local.FindONNXRuntime finds.
func find(s *config.Model) (err error) {
	if s.ModelPack == "" {
		if s.ModelPack, err = modelpack.Shipped(); err != nil {
			return err
		}
	}
	if s.ONNXRuntimeLib == "" {
		s.ONNXRuntimeLib, err = local.FindONNXRuntime()
	}
	return err
}

func options(s config.Model) inference.Options {
	return inference.Options{Pack: s.ModelPack, Library: s.ONNXRuntimeLib, Provider: inference.Provider(s.ModelProvider), Threads: s.ModelThreads}
}

// check writes a report on the pack as JSON, including the problems found. It returns an error if
// the pack or the library cannot be loaded.
func check(ctx context.Context, s config.Model, out io.Writer) error {
	if err := find(&s); err != nil {
		return err
	}
	report, err := inference.Check(ctx, options(s))
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}
