package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema/wire"
)

// natsConfigCommand writes the configuration of a NATS server, and the credentials and keys of the
// programs.
type natsConfigCommand struct {
	Dir       string   `arg:"" placeholder:"DIR" help:"Folder for the files. What is secret in it is made once and stays."`
	Store     string   `default:"/data" help:"Where the server keeps its streams."`
	MaxMemory string   `placeholder:"SIZE" help:"Memory that JetStream takes at most, as 256MB; the server's own limit when empty."`
	MaxFile   string   `placeholder:"SIZE" help:"Disk space that it takes at most, as 10GB; the server's own limit when empty."`
	TLSCert   string   `name:"tls-cert" placeholder:"FILE" help:"The server's certificate, PEM, as the server finds it. With it, programs must show certificates that --tls-ca signed. Servers of a cluster show theirs to each other: it must be for servers and clients."`
	TLSKey    string   `name:"tls-key" placeholder:"FILE" help:"Its key, PEM."`
	TLSCA     string   `name:"tls-ca" placeholder:"FILE" help:"The authority of the programs' certificates, PEM."`
	Monitor   string   `default:"127.0.0.1:8222" placeholder:"ADDR" help:"Where the server shows its health and its streams; whoever reaches it may read them."`
	Routes    []string `name:"route" placeholder:"HOST:PORT" help:"A server of a cluster, as the others find it; once for each, all of them. Each has its name in the variable NATS_SERVER_NAME."`
}

func (c *natsConfigCommand) Run(context.Context) error {
	config := bus.ServerConfig{Store: c.Store, MaxMemory: c.MaxMemory, MaxFile: c.MaxFile, Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA, Monitor: c.Monitor, Routes: c.Routes}
	if err := config.Write(c.Dir); err != nil {
		return err
	}
	fmt.Printf("%s is the server's configuration: nats-server --config %[1]s\n", filepath.Join(c.Dir, bus.ServerConfigFile))
	for _, p := range wire.Programs() {
		fmt.Printf("%s is for %s alone: SLUICE_NATS_CREDENTIALS\n", filepath.Join(c.Dir, bus.CredentialsFile(p)), p)
	}
	signers := []wire.Program{wire.ProgramServe, wire.ProgramQueryWorker, wire.ProgramUp}
	if err := writeSigningKeys(c.Dir, signers); err != nil {
		return err
	}
	for _, p := range signers {
		fmt.Printf("%s is for %s alone: SLUICE_SIGNING_KEY\n", filepath.Join(c.Dir, signingKeyFile(p)), p)
	}
	fmt.Printf("%s is for query-worker, llm-gateway, source-worker and up: SLUICE_TRUSTED_KEYS\n", filepath.Join(c.Dir, trustedKeysFile))
	return nil
}

const trustedKeysFile = "trusted-keys"

func signingKeyFile(p wire.Program) string { return string(p) + ".signing-key" }

// writeSigningKeys creates the private keys that don't exist, and adds their public keys to the
// trusted ones. After a key is replaced, the old one stays trusted until its line is removed, so
// that programs can get their new keys one after another.
func writeSigningKeys(dir string, programs []wire.Program) error {
	trusted := filepath.Join(dir, trustedKeysFile)
	text, err := os.ReadFile(trusted)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the trusted keys: %w", err)
	}
	for _, p := range programs {
		file := filepath.Join(dir, signingKeyFile(p))
		signer, err := signature.ReadSigner(file, file)
		if err != nil {
			if _, missing := os.Stat(file); !errors.Is(missing, fs.ErrNotExist) {
				return err
			}
			if signer, err = signature.NewSigner(string(p)); err != nil {
				return err
			}
			// Like credentials, it is protected by the folder's permissions.
			if err := os.WriteFile(file, []byte(signer.Private()), 0o644); err != nil {
				return fmt.Errorf("write the signing key of %s: %w", p, err)
			}
		}
		if !strings.Contains(string(text), signer.Public()) {
			text = append(text, signer.Public()...)
		}
	}
	if err := os.WriteFile(trusted, text, 0o644); err != nil {
		return fmt.Errorf("write the trusted keys: %w", err)
	}
	return nil
}
