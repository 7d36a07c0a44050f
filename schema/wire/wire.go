// Package wire is how the parts of Sluice talk: NATS subjects, streams and
// messages, Temporal task queues, workflow ids, signals and queries. Every such
// name is built here, by a function that validates it, and nowhere else.
//
// Messages are JSON with a version; those between the model server and its callers may be frames.
// Fields are only ever added; a message of an unknown version is kept for a newer reader, not
// dropped.
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

// Decode reads a message of either form and checks its version.
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

// HeaderTenant is the NATS header of a request that says whose it is, so that a service can tell
// tenants apart before it reads requests.
const HeaderTenant = "Sluice-Tenant"

// HeaderYields is the NATS header of a request to the model server, of any value, whose tenant has
// used up its share: it goes after those of other tenants, for a while.
const HeaderYields = "Sluice-Yields"

// HeaderRequest is the NATS header that names a request, by which it can be cancelled.
const HeaderRequest = "Sluice-Request"

// HeaderAlive is the NATS header of a request, of any value, whose caller wants to hear that it is
// held: when a service takes it, and now and then until the reply, on part PartAlive of the stream
// that its reply subject is a part of. What it hears nothing of it gives up. Services of before say
// nothing.
const HeaderAlive = "Sluice-Alive"

// HeaderSignature is the NATS header of a request that speaks for a tenant: the signature of who
// may.
const HeaderSignature = "Sluice-Signature"

// Cancel says that nobody wants the reply to a request any more. A caller that is killed does not
// say so: what it asked for goes on, and is there when another asks again.
type Cancel struct {
	Envelope
	Request string `json:"request"` // HeaderRequest of it
}

// Here says that a worker answers a service at a subject of its own, AtWorker.
type Here struct {
	Envelope
	Service string    `json:"service"` // its subject
	Worker  uuid.UUID `json:"worker"`
	// Slots is how many requests it runs at once; 0: it leaves.
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

// OfTenant is a request that is made for a tenant.
type OfTenant interface{ TenantID() uuid.UUID }

// Encode writes a message.
func Encode(m any) ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return data, nil
}

// MaxRequest bounds an encoded request to the model server, in bytes; NATS
// takes 1 MB. Clients split what is longer.
const MaxRequest = 512 << 10

func checkTenant(tenant uuid.UUID) string {
	if tenant == uuid.Nil {
		panic("wire: a subject needs a tenant")
	}
	return tenant.String()
}
