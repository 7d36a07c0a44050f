package program

import (
	"log/slog"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/signature"
)

// Signatures reads the keys of a worker: its own, nil if it has none, and those that it trusts. If
// trusted is nil, unsigned requests are accepted, and a warning is logged.
func Signatures(c config.Signatures) (*signature.Signer, *signature.Trusted, error) {
	signer, err := signature.ReadSigner("SLUICE_SIGNING_KEY", c.SigningKey)
	if err != nil {
		return nil, nil, err
	}
	trusted, err := Trusted(c.Trust)
	return signer, trusted, err
}

// Trusted returns the keys that a worker trusts, as in Signatures.
func Trusted(c config.Trust) (*signature.Trusted, error) {
	trusted, err := signature.ReadTrusted("SLUICE_TRUSTED_KEYS", c.TrustedKeys)
	if err != nil {
		return nil, err
	}
	if trusted == nil {
		slog.Warn("requests are accepted without a signature (SLUICE_TRUSTED_KEYS is not set): any program that can send them " +
			"can act for every tenant; `sluice nats-config` makes keys")
	}
	return trusted, nil
}
