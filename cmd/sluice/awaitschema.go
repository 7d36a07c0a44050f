package main

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store"
)

// awaitSchemaCommand waits for the database's migration before a program starts, for example in an
// init container.
type awaitSchemaCommand struct {
	config.Database
	config.Log
	Timeout time.Duration `default:"0s" help:"Give up after this long; 0: never."`
}

func (c *awaitSchemaCommand) Run(ctx context.Context) error {
	if err := config.Require([2]string{"SLUICE_DATABASE_URL", c.DatabaseURL}); err != nil {
		return err
	}
	log, err := logging(c.Log)
	if err != nil {
		return err
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	err = store.AwaitSchema(ctx, c.DatabaseURL, store.Options{
		Name: "sluice await-schema", MaxConns: 1, Pooled: c.DatabasePooled, DirectURL: c.DatabaseDirectURL,
	}, func(err error) { log.Info("waiting for the database's schema", "error", err) })
	if err == nil {
		log.Info("the database's schema fits this version")
	}
	return err
}
