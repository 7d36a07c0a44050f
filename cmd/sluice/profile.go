package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

// heapProfiles writes a heap profile into dir whenever the process gets SIGUSR1, until stop is
// called.
func heapProfiles(dir string, log *slog.Logger) (stop func()) {
	asked, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(asked, syscall.SIGUSR1)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-asked:
			case <-over:
				return
			}
			path := filepath.Join(dir, "heap-"+time.Now().UTC().Format("20060102T150405.000")+".pprof")
			if err := writeHeap(path); err != nil {
				log.Warn("cannot write a heap profile", "error", err)
			} else {
				log.Info("wrote a heap profile", "file", path)
			}
		}
	})
	return func() {
		signal.Stop(asked)
		close(over)
		running.Wait()
	}
}

// writeHeap writes a heap profile after a garbage collection. The file gets its name when it is
// complete.
func writeHeap(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	runtime.GC()
	if err := pprof.WriteHeapProfile(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
