package program

import (
	"log/slog"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/signature"
)

// Signatures reads the keys of a worker: its own, nil when it has none, and those that it trusts,
// nil when it takes what is not signed. It logs a warning then.
func Signatures(c config.Signatures) (*signature.Signer, *signature.Trusted, error) {
	signer, err := signature.ReadSigner("SLUICE_SIGNING_KEY", c.SigningKey)
	if err != nil {
		return nil, nil, err
	}
	trusted, err := Trusted(c.Trust)
	return signer, trusted, err
}

// Trusted are the keys of Signatures that a worker trusts.
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
