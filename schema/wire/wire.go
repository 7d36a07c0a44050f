// Package wire defines how the parts of Sluice communicate: NATS subjects, streams and messages,
// Temporal task queues, workflow ids, signals and queries. All such names are built in this
// package, by functions that validate them.
//
// Messages are JSON with a version; those between the model server and its callers may be frames.
// Fields are only added, never removed. A message of an unknown version is not dropped, but kept
// for a newer reader.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Version is the version that this build writes.
const Version = 1

// ErrVersion is wrapped when a message has a version this build does not know.
var ErrVersion = errors.New("unknown message version")

// Envelope is embedded in every message.
type Envelope struct {
	V int `json:"v"`
}

// Header returns the envelope that this build writes.
func Header() Envelope { return Envelope{V: Version} }

func (e Envelope) check() error {
	if e.V != Version {
		return fmt.Errorf("%w: %d, this build reads %d", ErrVersion, e.V, Version)
	}
	return nil
}

// Message is any message: its version can be checked.
type Message interface{ check() error }

// Decode reads a frame or JSON message and checks its version.
func Decode[M any, P interface {
	*M
	Message
}](data []byte) (M, error) {
	var m M
	if err := Read(data, &m); err != nil {
		return m, err
	}
	if err := P(&m).check(); err != nil {
		return m, fmt.Errorf("decode %T: %w", m, err)
	}
	return m, nil
}

// HeaderTenant is the NATS header with the tenant of a request, so that a service can distinguish
// tenants before it reads requests.
const HeaderTenant = "Sluice-Tenant"

// HeaderYields is the NATS header, of any value, of a request to the model server whose tenant has
// used up its share: the request runs after those of other tenants for a while.
const HeaderYields = "Sluice-Yields"

// HeaderRequest is the NATS header with the id of a request, by which it can be cancelled.
const HeaderRequest = "Sluice-Request"

// HeaderAlive is the NATS header, of any value, of a request whose caller wants to be notified that
// a service holds it: when the service takes the request, and then at intervals until the reply, on
// part PartAlive of the stream that its reply subject belongs to. The caller gives up a request
// without notifications. Services of older builds send none.
const HeaderAlive = "Sluice-Alive"

// HeaderSignature is the NATS header with the signature of a request that is made on behalf of a
// tenant, by a program that may make it.
const HeaderSignature = "Sluice-Signature"

// Cancel says that the reply to a request is not wanted any more. A caller that is killed sends
// none: its request goes on, and the result is available to the next caller.
type Cancel struct {
	Envelope
	Request string `json:"request"` // its HeaderRequest
}

// WorkerAnnouncement announces that a worker answers a service at a subject of its own, AtWorker.
type WorkerAnnouncement struct {
	Envelope
	Service string    `json:"service"` // its subject
	Worker  uuid.UUID `json:"worker"`
	// Slots is how many requests the worker runs at once; 0: it is leaving.
	Slots int `json:"slots"`
}

// Searching says that somebody searches.
type Searching struct {
	Envelope
	// Machine is where the query worker runs.
	Machine string `json:"machine"`
}

// Changed says that keys, collections or plans of a tenant have changed.
type Changed struct {
	Envelope
	Tenant uuid.UUID `json:"tenant"`
}

// OfTenant is a request on behalf of a tenant.
type OfTenant interface{ TenantID() uuid.UUID }

// Encode writes a message.
func Encode(m any) ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return data, nil
}

// MaxRequest is the largest encoded request to the model server, in bytes; NATS accepts 1 MB.
// Clients split larger requests.
const MaxRequest = 512 << 10

func checkTenant(tenant uuid.UUID) string {
	if tenant == uuid.Nil {
		panic("wire: a subject needs a tenant")
	}
	return tenant.String()
}
