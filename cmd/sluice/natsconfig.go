package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema/wire"
)

// natsConfigCommand writes what a NATS server and the programs need to know of each other.
type natsConfigCommand struct {
	Dir       string `arg:"" placeholder:"DIR" help:"Folder for the files. What is secret in it is made once and stays."`
	Store     string `default:"/data" help:"Where the server keeps its streams."`
	MaxMemory string `placeholder:"SIZE" help:"Memory that JetStream takes at most, as 256MB; the server's own limit when empty."`
	MaxFile   string `placeholder:"SIZE" help:"Disk space that it takes at most, as 10GB; the server's own limit when empty."`
	TLSCert   string `name:"tls-cert" placeholder:"FILE" help:"The server's certificate, PEM, as the server finds it. With it, programs must show certificates that --tls-ca signed."`
	TLSKey    string `name:"tls-key" placeholder:"FILE" help:"Its key, PEM."`
	TLSCA     string `name:"tls-ca" placeholder:"FILE" help:"The authority of the programs' certificates, PEM."`
}

func (c *natsConfigCommand) Run(context.Context) error {
	config := bus.ServerConfig{Store: c.Store, MaxMemory: c.MaxMemory, MaxFile: c.MaxFile, Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA}
	if err := config.Write(c.Dir); err != nil {
		return err
	}
	fmt.Printf("%s is the server's configuration: nats-server --config %[1]s\n", filepath.Join(c.Dir, bus.ServerConfigFile))
	for _, p := range wire.Programs() {
		fmt.Printf("%s is for %s alone: SLUICE_NATS_CREDENTIALS\n", filepath.Join(c.Dir, bus.CredentialsFile(p)), p)
	}
	return nil
}
