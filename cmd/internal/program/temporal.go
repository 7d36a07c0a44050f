package program

import (
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
)

// TemporalOptions returns the connection options from the settings. name is shown in Temporal's
// histories.
func TemporalOptions(t config.Temporal, name string) durable.Options {
	return durable.Options{
		Address: t.TemporalAddress, Namespace: t.TemporalNamespace, Name: name, APIKey: t.TemporalAPIKey,
		TLS: durable.TLS{CA: t.TemporalTLSCA, Cert: t.TemporalTLSCert, Key: t.TemporalTLSKey, ServerName: t.TemporalTLSServerName},
	}
}
