package main

// This file finds the server that an evaluation asks, or starts one.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/schema"
)

// server returns a client of the server that is named or runs on this machine. If there is none, or
// if plans is not "", it starts a server, with the folder of plans, and keeps its data for later
// runs. stop stops a started server.
func (c *evalCommand) server(ctx context.Context, plans string) (_ *apiclient.Client, stop func() error, err error) {
	stop = func() error { return nil }
	data, err := dataDirectory(c.Data)
	if err != nil {
		return nil, stop, err
	}
	client, err := apiclient.Find(c.APITLSCA, c.URL, c.APIKey, data)
	switch {
	case c.URL != "" && plans != "":
		return nil, stop, schema.Invalid("plan-file", "a running server has its own plans: start it with --plans, or leave out --url and SLUICE_URL")
	case c.URL != "":
		return client, stop, err
	case plans == "" && err == nil && client.Answers(ctx) == nil:
		return client, stop, nil
	}
	// Separate from the data of `sluice up`, which may be started meanwhile.
	settings, err := ownSettings(filepath.Join(data, "eval"))
	if err != nil {
		return nil, stop, err
	}
	if plans != "" {
		settings.Plans.Plans = plans
	}
	return settings.started(ctx)
}

// started starts a server with these settings; stop stops it.
func (c *upCommand) started(ctx context.Context) (_ *apiclient.Client, stop func() error, err error) {
	stop = func() error { return nil }
	fmt.Fprintf(os.Stderr, "Starting a server for this evaluation, with its data in %s.\n", c.Data)
	u, service, err := c.service(ctx, "eval")
	if err != nil {
		return nil, stop, err
	}
	if err := service.Start(ctx); err != nil {
		return nil, stop, fmt.Errorf("start a server: %w", err)
	}
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+serversGrace)
		defer cancel()
		return service.Stop(ctx)
	}
	client, err := apiclient.New(u.credentials.URL, u.credentials.APIKey)
	return client, stop, err
}

// ownSettings returns the settings of `sluice up` with a data directory, servers of its own, any
// free port, and more flags.
func ownSettings(data string, flags ...string) (*upCommand, error) {
	source, err := config.Read(append([]string{"up", "--data", data, "--listen", "127.0.0.1:0"}, flags...))
	if err != nil {
		return nil, err
	}
	var c struct {
		Up upCommand `cmd:""`
	}
	parser, err := kong.New(&c, source)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(source.Args); err != nil {
		return nil, err
	}
	c.Up.DatabaseOwnerURL, c.Up.DatabaseVectorURL = "", ""
	c.Up.APITLSCert, c.Up.APITLSKey = "", "" // no other client uses this server
	c.Up.DatabaseURL, c.Up.NATSURL, c.Up.TemporalAddress = "", "", ""
	c.Up.LLMCacheAge = 0 // every measured call must be made
	return &c.Up, nil
}
