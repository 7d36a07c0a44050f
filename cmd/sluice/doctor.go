package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/cmd/internal/modelchild"
	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

// doctorCommand checks what `sluice up` would use: that configured servers answer, and that the
// others can be started. If a server runs, it checks that, too.
type doctorCommand struct {
	remote
	config.Database
	config.Blobs
	config.NATS
	config.Temporal
	config.Model
}

// finding is the state of one part.
type finding struct {
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// checkTimeout is the timeout of one check.
const checkTimeout = 5 * time.Second

func (d *doctorCommand) Run(ctx context.Context) error {
	checks := []struct {
		part  string
		check func(context.Context) (string, error)
	}{
		{"postgres", d.postgres}, {"s3", d.s3}, {"nats", d.nats}, {"temporal", d.temporal},
		{"onnx runtime", d.onnxRuntime}, {"gpu-segmenter", func(context.Context) (string, error) { return modelchild.Find() }},
		{"model pack", d.modelPack}, {"parsers", ingestworker.Confinement}, {"data directory", d.directory}, {"server", d.server},
	}
	var found []finding
	failed := false
	for _, c := range checks {
		attempt, cancel := context.WithTimeout(ctx, checkTimeout)
		detail, err := c.check(attempt)
		cancel()
		f := finding{Part: c.part, OK: err == nil, Detail: detail}
		if err != nil {
			f.Detail, failed = err.Error(), true
		}
		found = append(found, f)
	}
	if d.JSON {
		if err := printJSON(found); err != nil {
			return err
		}
	} else if err := table("PART STATE DETAIL", func(row func(...any)) {
		for _, f := range found {
			state := "ok"
			if !f.OK {
				state = "MISSING"
			}
			row(f.Part, state, f.Detail)
		}
	}); err != nil {
		return err
	}
	if failed {
		return errSilent
	}
	return nil
}

func (d *doctorCommand) postgres(ctx context.Context) (string, error) {
	if d.DatabaseURL == "" {
		p, err := local.FindPostgres(ctx, 0)
		return fmt.Sprintf("PostgreSQL %d in %s with pgvector %s; `sluice up` starts it", p.Major, p.Bin, p.Vector), err
	}
	db, err := store.Open(ctx, d.DatabaseURL, store.Options{
		Name: "sluice doctor", MaxConns: 2, Pooled: d.DatabasePooled, DirectURL: d.DatabaseDirectURL,
	})
	if err != nil {
		return "", err
	}
	defer db.Close()
	if err := db.CheckPooler(ctx); err != nil {
		return "", err
	}
	return "SLUICE_DATABASE_URL answers, and its schema fits", db.CheckSchema(ctx)
}

func (d *doctorCommand) s3(ctx context.Context) (string, error) {
	bucket, err := program.Bucket(d.Blobs)
	switch {
	case err != nil:
		return "", err
	case bucket == nil:
		return "not used: Postgres keeps the bytes of documents", nil
	}
	detail := fmt.Sprintf("SLUICE_S3_ENDPOINT answers, and objects can be written to bucket %s, read and deleted", d.S3Bucket)
	if d.Blobs.Blobs != "s3" {
		detail += "; Postgres keeps the bytes of documents that come (SLUICE_BLOBS)"
	}
	return detail, bucket.Try(ctx)
}

func (d *doctorCommand) nats(ctx context.Context) (string, error) {
	if d.NATSURL == "" {
		return "built in; `sluice up` starts it", nil
	}
	nc, err := bus.Connect(ctx, bus.Options{URL: d.NATSURL, Name: "sluice doctor", Program: wire.ProgramServe, Files: bus.Files(d.NATSFiles)})
	if err != nil {
		return "", err
	}
	defer nc.Close()
	models := modelclient.New(nc, modelclient.Options{})
	info, err := models.Info(ctx)
	if err != nil {
		return "SLUICE_NATS_URL answers; no model server does", nil
	}
	found := fmt.Sprintf("SLUICE_NATS_URL answers, and a model server with pack %s on %s", info.Pack, info.Provider)
	attempt, cancel := context.WithTimeout(ctx, time.Second) // there may be no server
	defer cancel()
	if second, err := models.Second().Info(attempt); err == nil {
		found += fmt.Sprintf(", and a second encoder with pack %s", second.Pack)
	}
	return found, nil
}

func (d *doctorCommand) temporal(ctx context.Context) (string, error) {
	if d.TemporalAddress == "" {
		t, err := local.FindTemporal()
		if t.Official {
			return t.Path + "; `sluice up` starts it, and it asks for no password: every user of this machine can read and end " +
				"workflows; `tools/setup temporal` builds one that does", err
		}
		return t.Path + "; `sluice up` starts it", err
	}
	c, err := durable.Dial(ctx, program.TemporalOptions(d.Temporal, "sluice doctor"))
	if err != nil {
		return "", err
	}
	c.Close()
	return "SLUICE_TEMPORAL_ADDRESS answers", nil
}

func (d *doctorCommand) onnxRuntime(context.Context) (string, error) {
	if d.ONNXRuntimeLib != "" {
		_, err := os.Stat(d.ONNXRuntimeLib)
		return d.ONNXRuntimeLib, err
	}
	return local.FindONNXRuntime()
}

func (d *doctorCommand) modelPack(context.Context) (string, error) {
	data, err := dataDirectory(d.Data)
	if err != nil {
		return "", err
	}
	pack, err := modelpack.Find(modelsDirectory(data), d.ModelPack)
	return pack + "; `sluice models check` tries it", err
}

func (d *doctorCommand) directory(context.Context) (string, error) {
	data, err := dataDirectory(d.Data)
	if err != nil {
		return "", err
	}
	probe := data
	for {
		if _, err := os.Stat(probe); err == nil || probe == filepath.Dir(probe) {
			break
		}
		probe = filepath.Dir(probe)
	}
	f, err := os.CreateTemp(probe, ".sluice-doctor-*")
	if err != nil {
		return "", fmt.Errorf("%s cannot be written (--data, SLUICE_DATA): %w", probe, err)
	}
	_ = f.Close()
	return data, os.Remove(f.Name())
}

func (d *doctorCommand) server(ctx context.Context) (string, error) {
	c, err := d.client()
	if err != nil {
		return "none runs with this data; start one with `sluice up`, or name the --data of another", nil
	}
	who, err := c.WhoAmI(ctx)
	if err != nil {
		return "none answers; start one with `sluice up`", nil
	}
	return fmt.Sprintf("answers; the key is %q of tenant %s", who.Name, who.Tenant), nil
}
