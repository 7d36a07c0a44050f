package main

// This file writes what the programs read when they start.

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

// configurationOf is what the templates in files are given.
type configurationOf struct {
	Dir, Pki, Node, Address, Pods, Client string
}

// writeConfiguration writes each of files, and a kubeconfig for each client.
func writeConfiguration(dir string, c *certificates) error {
	given := configurationOf{Dir: dir, Pki: c.dir, Node: nodeName, Address: nodeAddress, Pods: podRange}
	all, err := template.ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	for _, sub := range []string{"log", "networks/configuration", "kubelet", "volumes/a", "volumes/b"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	names, err := fs.ReadDir(files, "files")
	if err != nil {
		return err
	}
	for _, file := range names {
		name := file.Name()
		switch {
		case name == "kubeconfig.yaml":
			for client := range clients {
				given.Client = client
				if err := writeTemplate(all, name, filepath.Join(dir, client+".kubeconfig"), given); err != nil {
					return err
				}
			}
		case strings.HasSuffix(name, ".conflist"):
			err = writeTemplate(all, name, filepath.Join(dir, "networks/configuration", name), given)
		default:
			err = writeTemplate(all, name, filepath.Join(dir, name), given)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeTemplate(all *template.Template, name, path string, given configurationOf) error {
	var out bytes.Buffer
	if err := all.ExecuteTemplate(&out, name, given); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}
