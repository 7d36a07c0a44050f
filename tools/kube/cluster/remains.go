package main

// This file has the changes that a cluster makes outside its namespaces, and undoes them.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
)

// cleanUp removes the state of a cluster that has ended; logs stay.
func cleanUp(dir string) error {
	var errs []error
	if _, err := net.InterfaceByName(link); err == nil {
		err := command("ip", "link", "delete", link)
		// The link is also removed with the node's network, possibly at this moment.
		if _, gone := net.InterfaceByName(link); gone == nil {
			errs = append(errs, err)
		}
	}
	for _, p := range places {
		groups, err := p.groups()
		if err != nil {
			return err
		}
		for _, group := range groups {
			errs = append(errs, removeGroups(group))
		}
		for _, name := range []string{"containerd", "state", "kubelet", "networks"} {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, p.Name, name)))
		}
	}
	for _, name := range []string{"etcd", "pki", "volumes"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing what a cluster left: %w", err)
	}
	return nil
}

const groupsRoot = "/sys/fs/cgroup"

// groups returns the paths of the control groups for a node's pods: one for each controller, or a
// single one with cgroup v2.
func (p place) groups() ([]string, error) {
	if _, err := os.Stat(filepath.Join(groupsRoot, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(groupsRoot, p.Name)}, nil
	}
	kinds, err := filepath.Glob(groupsRoot + "/*")
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, kind := range kinds {
		if info, err := os.Lstat(kind); err == nil && info.IsDir() {
			groups = append(groups, filepath.Join(kind, p.Name))
		}
	}
	return groups, nil
}

// makeGroups creates the nodes' control groups, which a kubelet with its own root expects. Two
// kubelets that share one would kill each other's pods.
func makeGroups() error {
	for _, p := range places {
		groups, err := p.groups()
		if err != nil {
			return err
		}
		for _, group := range groups {
			if err := os.Mkdir(group, 0o755); err != nil {
				return fmt.Errorf("making a control group: %w", err)
			}
		}
	}
	return nil
}

// removeGroups removes a control group with its children, which have no processes any more.
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

// kernelSettings are the settings of the whole machine that a kubelet changes.
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
