package bus

// How a program authenticates to a NATS server, and how it verifies the server.

import (
	"bytes"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/sluice-rag/sluice/schema"
)

// Files are the files that secure a connection; all may be empty.
type Files struct {
	// NATSCredentials holds an NKey seed, alone (as `sluice nats-config` writes it) or with a
	// user's JWT (a .creds file).
	NATSCredentials string
	NATSCA          string // CA certificates that verify the server's certificate, PEM; empty: the system's
	NATSCert        string // certificate of this client, PEM; its key is in NATSKey
	NATSKey         string
}

// options returns the options of the connection. Credentials are read again at every reconnect.
func (f Files) options() ([]nats.Option, error) {
	var out []nats.Option
	if f.NATSCredentials != "" {
		text, err := os.ReadFile(f.NATSCredentials)
		if err != nil {
			return nil, &schema.FieldError{Field: "SLUICE_NATS_CREDENTIALS", Problem: err.Error()}
		}
		if bytes.Contains(text, []byte("BEGIN NATS USER JWT")) {
			out = append(out, nats.UserCredentials(f.NATSCredentials))
		} else {
			nkey, err := nats.NkeyOptionFromSeed(f.NATSCredentials)
			if err != nil {
				return nil, schema.Invalid("SLUICE_NATS_CREDENTIALS", "%s holds neither an NKey seed of a user nor credentials with a JWT: %v", f.NATSCredentials, err)
			}
			out = append(out, nkey)
		}
	}
	if f.NATSCA != "" {
		if _, err := os.Stat(f.NATSCA); err != nil {
			return nil, &schema.FieldError{Field: "SLUICE_NATS_CA", Problem: err.Error()}
		}
		out = append(out, nats.RootCAs(f.NATSCA))
	}
	if (f.NATSCert == "") != (f.NATSKey == "") {
		return nil, schema.Invalid("SLUICE_NATS_CERT", "needs SLUICE_NATS_KEY beside it, and the other way round")
	}
	if f.NATSCert != "" {
		if _, err := os.Stat(f.NATSCert); err != nil {
			return nil, &schema.FieldError{Field: "SLUICE_NATS_CERT", Problem: err.Error()}
		}
		out = append(out, nats.ClientCert(f.NATSCert, f.NATSKey))
	}
	return out, nil
}

// seeded returns the option that authenticates by a seed in memory.
func seeded(seed []byte) (nats.Option, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("read an NKey seed: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read an NKey seed: %w", err)
	}
	return nats.Nkey(public, pair.Sign), nil
}
