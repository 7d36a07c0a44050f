package main

// Sources in `sluice up`: the key of their secrets, and source-worker as a child process if it is
// beside this program or on PATH. Otherwise this process synchronises sources, with the driver of
// folders only.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/cmd/internal/modelchild"
	"github.com/sluice-rag/sluice/cmd/internal/sourceworker"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/schema/wire"
)

// sources returns the keys of secrets, and the service that synchronises sources.
func (u *system) sources() (seal.Keys, lifecycle.Service, error) {
	s := u.settings
	file := s.SourcesKeyFile
	if file == "" && s.SourcesKey == "" {
		file = filepath.Join(s.Data, "sources.key")
		if err := receipt.MakeKey(file); err != nil { // it also makes 32 random bytes in base64
			return seal.Keys{}, nil, err
		}
	}
	keys, err := seal.Read(file, s.SourcesKey)
	if err != nil {
		return keys, nil, err
	}
	program, err := modelchild.FindProgram(string(wire.ProgramSourceWorker))
	if err != nil {
		u.log.Info("only folders can be sources", "why", err)
		worker, err := sourceworker.New(sourceworker.Settings{Synchronisation: s.Synchronisation, SourceKeys: config.SourceKeys{SourcesKeyFile: file, SourcesKey: s.SourcesKey}},
			sourceworker.Deps{Store: u.ingestion, NATS: u.nats[wire.ProgramSourceWorker], Temporal: u.temporal, Trusted: u.trusted}, nil)
		return keys, worker, err
	}
	env, err := u.sourceEnv(file)
	if err != nil {
		return keys, nil, err
	}
	return keys, modelchild.New(modelchild.Options{Name: string(wire.ProgramSourceWorker), Program: program, Env: env, Log: u.log,
		Ready: func(context.Context) error { return nil }}), nil // nothing waits for it to be ready
}

// sourceEnv returns source-worker's environment: this process's environment without other settings
// of Sluice, and the settings of source-worker.
func (u *system) sourceEnv(keyFile string) ([]string, error) {
	s := u.settings
	credentials, trusted := s.NATSCredentials, s.TrustedKeys
	if u.ownNATS != nil {
		var err error
		if credentials, err = u.ownNATS.SeedFile(wire.ProgramSourceWorker); err != nil {
			return nil, err
		}
		trusted = filepath.Join(s.Data, "source-worker.trusted")
		if err := os.WriteFile(trusted, []byte(u.signers[wire.ProgramServe].Public()), 0o600); err != nil {
			return nil, fmt.Errorf("write the keys that source-worker trusts: %w", err)
		}
	}
	env := withoutSettings()
	t := u.temporalAt
	for name, value := range map[string]string{
		"SLUICE_DATABASE_URL": u.databaseURL, "SLUICE_DATABASE_CONNECTIONS": strconv.Itoa(int(max(4, s.DatabaseConnections/4))),
		"SLUICE_NATS_URL": u.natsURL, "SLUICE_NATS_CREDENTIALS": credentials, "SLUICE_NATS_CA": s.NATSCA, "SLUICE_NATS_CERT": s.NATSCert, "SLUICE_NATS_KEY": s.NATSKey,
		"SLUICE_TEMPORAL_ADDRESS": t.TemporalAddress, "SLUICE_TEMPORAL_NAMESPACE": t.TemporalNamespace, "SLUICE_TEMPORAL_TLS_CA": t.TemporalTLSCA,
		"SLUICE_TEMPORAL_TLS_CERT": t.TemporalTLSCert, "SLUICE_TEMPORAL_TLS_KEY": t.TemporalTLSKey,
		"SLUICE_TEMPORAL_TLS_SERVER_NAME": t.TemporalTLSServerName, "SLUICE_TEMPORAL_API_KEY": t.TemporalAPIKey,
		"SLUICE_TRUSTED_KEYS": trusted, "SLUICE_SOURCES_KEY_FILE": keyFile, "SLUICE_SOURCES_KEY": s.SourcesKey,
		"SLUICE_SOURCE_ROOTS": strings.Join(s.SourceRoots, ","), "SLUICE_SOURCE_ALLOW_PRIVATE": strconv.FormatBool(s.SourcePrivate),
		"SLUICE_SOURCE_FETCHES": strconv.Itoa(s.SourceFetches), "SLUICE_SOURCE_RUNS": strconv.Itoa(s.SourceRuns),
		"SLUICE_SOURCE_ITEM_MB": strconv.FormatInt(s.SourceItem, 10), "SLUICE_SOURCE_TICK": s.SourceTick.String(), "SLUICE_SOURCE_LEASE": s.SourceLease.String(),
		"SLUICE_BLOBS": s.Blobs.Blobs, "SLUICE_S3_ENDPOINT": s.S3Endpoint, "SLUICE_S3_BUCKET": s.S3Bucket, "SLUICE_S3_PREFIX": s.S3Prefix,
		"SLUICE_S3_REGION": s.S3Region, "SLUICE_S3_ACCESS_KEY": s.S3AccessKey, "SLUICE_S3_SECRET_KEY": s.S3SecretKey,
		"SLUICE_S3_CREDENTIALS": s.S3Credentials, "SLUICE_S3_CA": s.S3CA, "SLUICE_S3_ADDRESSING": s.S3Addressing,
		"SLUICE_HEALTH_LISTEN": "off", "SLUICE_LOG_LEVEL": s.LogLevel, "SLUICE_LOG_FORMAT": s.LogFormat,
	} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	if s.DatabaseURL != "" && s.DatabasePooled {
		env = append(env, "SLUICE_DATABASE_POOLED=true", "SLUICE_DATABASE_DIRECT_URL="+s.DatabaseDirectURL)
	}
	return env, nil
}
