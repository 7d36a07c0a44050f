package main

// This file writes the programs' configuration files.

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

// configurationOf has the values for the templates in files.
type configurationOf struct {
	Cluster, Pki, Address, DNS, Pods string
	Nodes                            []place
	Disks                            []string

	Client string // the client of the kubeconfig
	Node   place  // the node of the file
	Dir    string // directory of the node
}

// disks are folders that become volumes.
var disks = []string{"a", "b"}

// writeConfiguration writes the files for the cluster, for each client and for each node.
func writeConfiguration(dir string, c *certificates) error {
	given := configurationOf{Cluster: dir, Pki: c.dir, Address: places[0].Address, DNS: dnsAddress, Pods: podRange, Nodes: places, Disks: disks}
	all, err := template.ParseFS(files, "files/*/*")
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if err := os.MkdirAll(filepath.Join(dir, "volumes", disk), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"rights.yaml", "volumes.yaml"} {
		if err := writeTemplate(all, name, filepath.Join(dir, name), given); err != nil {
			return err
		}
	}
	for client := range clients() {
		given.Client = client
		if err := writeTemplate(all, "kubeconfig.yaml", filepath.Join(dir, client+".kubeconfig"), given); err != nil {
			return err
		}
	}
	for _, p := range places {
		given.Node, given.Dir = p, filepath.Join(dir, p.Name)
		for _, sub := range []string{"log", "networks/configuration", "kubelet"} {
			if err := os.MkdirAll(filepath.Join(given.Dir, sub), 0o755); err != nil {
				return err
			}
		}
		if err := writeNode(all, given); err != nil {
			return err
		}
	}
	return nil
}

func writeNode(all *template.Template, given configurationOf) error {
	names, err := fs.ReadDir(files, "files/node")
	if err != nil {
		return err
	}
	for _, file := range names {
		path := filepath.Join(given.Dir, file.Name())
		if strings.HasSuffix(path, ".conflist") {
			path = filepath.Join(given.Dir, "networks/configuration", file.Name())
		}
		if err := writeTemplate(all, file.Name(), path, given); err != nil {
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
