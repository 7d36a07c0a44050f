// Package signature signs requests between programs, so that only those who authenticate people, or
// own jobs, can speak for a tenant. NATS' permissions say who may send to a subject; a signature
// holds also where those fail: when a server knows no programs, or credentials leak.
package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Validity is how far the time of a signature may be from the clock of who checks it, before or
// after: clocks may differ, and a request may wait for its connection.
const Validity = time.Minute

// version begins what is signed and what is sent, so that another form can never be taken for this
// one.
const version = "sluice-request-v1"

// Statement is what is signed of a request: where it goes, where its reply goes, which one it is,
// and what it says.
type Statement struct {
	Subject, Reply, Request string
	Data                    []byte
}

func (s Statement) bytes(by string, at int64) []byte {
	sum := sha256.Sum256(s.Data)
	var b bytes.Buffer
	for _, part := range []string{version, by, strconv.FormatInt(at, 10), s.Subject, s.Reply, s.Request} {
		fmt.Fprintf(&b, "%d:%s\n", len(part), part) // no part can run into the next one
	}
	b.Write(sum[:])
	return b.Bytes()
}

// Signer signs for one program.
type Signer struct {
	program string
	key     ed25519.PrivateKey
	now     func() time.Time
}

// NewSigner makes a signer with a new key.
func NewSigner(program string) (*Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return &Signer{program: program, key: key, now: time.Now}, nil
}

// Sign returns the signature of a request. A nil Signer gives none.
func (s *Signer) Sign(x Statement) string {
	if s == nil {
		return ""
	}
	at := s.now().Unix()
	return strings.Join([]string{version, s.program, strconv.FormatInt(at, 10), encode(ed25519.Sign(s.key, x.bytes(s.program, at)))}, " ")
}

// Private is the line that ParseSigner reads.
func (s *Signer) Private() string { return s.program + " private " + encode(s.key.Seed()) + "\n" }

// Public is the line of the key by which others check what s signs.
func (s *Signer) Public() string {
	return s.program + " " + encode(s.key.Public().(ed25519.PublicKey)) + "\n"
}

// ParseSigner reads a file of one private key: PROGRAM private KEY.
func ParseSigner(text string) (*Signer, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 || fields[1] != "private" {
		return nil, errors.New("it is not one line of program, the word private, and key")
	}
	seed, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the key is not %d bytes in base64", ed25519.SeedSize)
	}
	return &Signer{program: fields[0], key: ed25519.NewKeyFromSeed(seed), now: time.Now}, nil
}

// Trusted are the public keys of programs, several of one while its key is changed.
type Trusted struct {
	keys map[string][]ed25519.PublicKey
	now  func() time.Time
}

// ParseTrusted reads lines of program and public key; # begins a comment.
func ParseTrusted(text string) (*Trusted, error) {
	t := &Trusted{keys: map[string][]ed25519.PublicKey{}, now: time.Now}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d is not a program and its public key", n)
		}
		key, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("line %d: the key is not %d bytes in base64", n, ed25519.PublicKeySize)
		}
		t.keys[fields[0]] = append(t.keys[fields[0]], key)
	}
	if len(t.keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return t, nil
}

// Checker checks the requests of one service.
type Checker struct {
	*Trusted
	programs []string

	mu     sync.Mutex
	seen   map[string]time.Time // requests, and until when they are remembered
	forget time.Time
}

// Checker makes one for requests that these programs may sign. That of a nil Trusted takes
// everything.
func (t *Trusted) Checker(programs ...string) *Checker {
	if t == nil {
		return nil
	}
	return &Checker{Trusted: t, programs: programs, seen: map[string]time.Time{}}
}

// Check reports why a request is refused: it must be signed by one of the programs, for exactly
// this use, within Validity, and not have come before.
func (t *Checker) Check(x Statement, signature string) error {
	if t == nil {
		return nil
	}
	refused := func(format string, args ...any) error {
		return fmt.Errorf("the request is refused: "+format+": %w", append(args, schema.ErrUnavailable)...)
	}
	fields := strings.Split(signature, " ")
	if signature == "" {
		return refused("it is not signed; does its sender have SLUICE_SIGNING_KEY?")
	}
	if len(fields) != 4 || fields[0] != version {
		return refused("its signature cannot be read; is its sender of another version?")
	}
	by := fields[1]
	at, err := strconv.ParseInt(fields[2], 10, 64)
	signed, err2 := base64.StdEncoding.DecodeString(fields[3])
	if err != nil || err2 != nil {
		return refused("its signature cannot be read")
	}
	if !slices.Contains(t.programs, by) {
		return refused("%q may not sign it", by)
	}
	ok := false
	for _, key := range t.keys[by] {
		ok = ok || ed25519.Verify(key, x.bytes(by, at), signed)
	}
	if !ok {
		return refused("its signature is not by a key of %s that is trusted (SLUICE_TRUSTED_KEYS), or it was altered", by)
	}
	now := t.now()
	if age := now.Sub(time.Unix(at, 0)); age > Validity || age < -Validity {
		return refused("it was signed %s ago, and %s is the most; are the clocks right?", age.Round(time.Second), Validity)
	}
	if !t.first(by+" "+x.Request, now) {
		return refused("it came before")
	}
	return nil
}

// first reports whether a request comes for the first time; it is remembered for as long as its
// signature is valid.
func (t *Checker) first(request string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.After(t.forget) {
		for old, until := range t.seen {
			if now.After(until) {
				delete(t.seen, old)
			}
		}
		t.forget = now.Add(Validity / 4)
	}
	if until, again := t.seen[request]; again && !now.After(until) {
		return false
	}
	t.seen[request] = now.Add(2*Validity + time.Second)
	return true
}

// ReadSigner reads the file that setting names; without a name there is none.
func ReadSigner(setting, file string) (*Signer, error) {
	return read(setting, file, ParseSigner)
}

// ReadTrusted reads the file that setting names; without a name there is none, and everything is
// taken.
func ReadTrusted(setting, file string) (*Trusted, error) {
	return read(setting, file, ParseTrusted)
}

func read[T any](setting, file string, parse func(string) (*T, error)) (*T, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &schema.FieldError{Field: setting, Problem: err.Error()}
	}
	out, err := parse(string(text))
	if err != nil {
		return nil, schema.Invalid(setting, "%s: %v", file, err)
	}
	return out, nil
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
