package main

// This file is what a cluster changes outside of its namespaces, and how that is undone.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
)

// cleanUp removes the state of a cluster that ended; logs stay.
func cleanUp(dir string) error {
	var errs []error
	if _, err := net.InterfaceByName(link); err == nil {
		errs = append(errs, command("ip", "link", "delete", link))
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	if err != nil {
		return err
	}
	for _, group := range append(groups, "/sys/fs/cgroup/kubepods") {
		errs = append(errs, removeGroups(group))
	}
	for _, name := range []string{"containerd", "state", "etcd", "kubelet", "pki", "volumes", "networks"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("removing what a cluster left: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeGroups removes a control group with those in it, which have no processes any more.
func removeGroups(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("removing a control group: %w", err)
		}
	}
	return nil
}

// kernelSettings are those of the whole machine that a kubelet changes.
var kernelSettings = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

func readKernelSettings() map[string][]byte {
	kept := map[string][]byte{}
	for _, name := range kernelSettings {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			kept[name] = value
		}
	}
	return kept
}

func writeKernelSettings(kept map[string][]byte) error {
	var errs []error
	for name, value := range kept {
		errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", name), value, 0o644))
	}
	return errors.Join(errs...)
}
