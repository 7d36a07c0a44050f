package inference

// This file loads the ONNX Runtime library and decides how its sessions run: provider and threads.
// The library is global to a process, so its users are counted.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/schema"
)

// Provider is where graphs run.
type Provider string

// Providers.
const (
	CPU  Provider = "cpu"
	CUDA Provider = "cuda"
)

var library struct {
	sync.Mutex
	path  string
	users int
}

// loadLibrary loads ONNX Runtime. Each successful call needs a call of freeLibrary.
func loadLibrary(path string) error {
	library.Lock()
	defer library.Unlock()
	if library.users > 0 {
		if path != library.path {
			return schema.Invalid("SLUICE_ONNXRUNTIME_LIB", "this process uses %s already, it can't load %s beside it", library.path, path)
		}
		library.users++
		return nil
	}
	if path == "" {
		return schema.Invalid("SLUICE_ONNXRUNTIME_LIB", "names no library; run `make setup`, or set it to libonnxruntime.so of ONNX Runtime 1.24 or newer")
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("ONNX Runtime library (SLUICE_ONNXRUNTIME_LIB; `make setup` installs one): %w", err)
	}
	ort.SetSharedLibraryPath(path)
	// ONNX Runtime reads the variable when its environment is created, which starts telemetry. A
	// later call can only pause that.
	if err := os.Setenv(modelpack.NoTelemetry, "1"); err != nil {
		return fmt.Errorf("turn off the telemetry of ONNX Runtime: %w", err)
	}
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return fmt.Errorf("load the ONNX Runtime library %s (needed: ONNX Runtime 1.24 or newer for this machine): %w", path, err)
	}
	// For a library that has this call but does not read the variable.
	if err := ort.DisableTelemetry(); err != nil {
		return errors.Join(fmt.Errorf("turn off the telemetry of ONNX Runtime: %w", err), ort.DestroyEnvironment())
	}
	library.path, library.users = path, 1
	return nil
}

func freeLibrary() error {
	library.Lock()
	defer library.Unlock()
	if library.users--; library.users > 0 {
		return nil
	}
	if err := ort.DestroyEnvironment(); err != nil {
		return fmt.Errorf("unload ONNX Runtime: %w", err)
	}
	return nil
}

// sessionOptions returns the options of every session. The caller destroys them.
func sessionOptions(provider Provider, threads int) (_ *ort.SessionOptions, err error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("make session options: %w", err)
	}
	defer func() {
		if err != nil {
			_ = options.Destroy()
		}
	}()
	// Threads that spin while they wait would take processor time from the rest of the machine.
	for key, value := range map[string]string{
		"session.intra_op.allow_spinning": "0",
		"session.set_denormal_as_zero":    "1",
		// Keep weights out of the arena for a run's tensors, which grows by doubling.
		"session.use_device_allocator_for_initializers": "1",
	} {
		if err := options.AddSessionConfigEntry(key, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", key, err)
		}
	}
	if err := options.SetIntraOpNumThreads(threads); err != nil {
		return nil, fmt.Errorf("set threads to %s: %w", strconv.Itoa(threads), err)
	}
	switch provider {
	case CPU:
		return options, nil
	case CUDA:
		if err := appendCUDA(options); err != nil {
			return nil, fmt.Errorf("provider cuda (SLUICE_MODEL_PROVIDER): %w; "+
				"it needs an NVIDIA driver and a GPU build of ONNX Runtime with its CUDA provider beside it "+
				"(SLUICE_ONNXRUNTIME_LIB, now %s); SLUICE_MODEL_PROVIDER=cpu runs without", err, library.path)
		}
		return options, nil
	}
	return nil, schema.Invalid("SLUICE_MODEL_PROVIDER", "%q is neither cpu nor cuda", provider)
}

func appendCUDA(options *ort.SessionOptions) error {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer func() { _ = cuda.Destroy() }()
	return options.AppendExecutionProviderCUDA(cuda)
}
