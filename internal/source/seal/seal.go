// Package seal encrypts the stored secrets of sources with AES-256-GCM. The ciphertext is bound to
// the tenant and the source, so that it can't be opened in another source's row.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// KeyFile and KeyVariable are the names of the settings, for errors.
const (
	KeyFile     = "SLUICE_SOURCES_KEY_FILE"
	KeyVariable = "SLUICE_SOURCES_KEY"
)

const (
	formatVersion = 1 // an encrypted text has the format version, the key's name, nonce, encrypted values
	keyBytes      = 32
	nameSize      = 8
)

// ErrNoKey is the error of sealing or opening secrets without a key.
var ErrNoKey = fmt.Errorf("there is no key to encrypt secrets of sources with: set %s to a file with 32 random bytes in base64 "+
	"(head -c 32 /dev/urandom | base64), the same for `sluice serve` and source-worker: %w", KeyFile, schema.ErrConflict)

// Keys encrypt and decrypt secrets. The zero value has no keys.
type Keys struct{ keys []key }

type key struct {
	name [nameSize]byte // the beginning of the key's hash
	aead cipher.AEAD
}

// Read reads keys from a file, one per line, or from a comma-separated list. The first key
// encrypts; all of them decrypt. If both are empty, it returns no keys.
func Read(file, list string) (Keys, error) {
	switch {
	case file != "" && list != "":
		return Keys{}, schema.Invalid(KeyVariable, "is set beside %s; one of them is enough", KeyFile)
	case file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			return Keys{}, fmt.Errorf("read the keys of sources (%s): %w", KeyFile, err)
		}
		return parse(KeyFile, strings.Fields(string(text)))
	case list != "":
		return parse(KeyVariable, strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }))
	}
	return Keys{}, nil
}

func parse(setting string, lines []string) (Keys, error) {
	var out Keys
	for i, line := range lines {
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != keyBytes {
			return Keys{}, schema.Invalid(setting, "key %d is not %d bytes in base64; make one with: head -c 32 /dev/urandom | base64", i+1, keyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return Keys{}, fmt.Errorf("use key %d of sources: %w", i+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return Keys{}, fmt.Errorf("use key %d of sources: %w", i+1, err)
		}
		sum := sha256.Sum256(raw)
		out.keys = append(out.keys, key{name: [nameSize]byte(sum[:nameSize]), aead: aead})
	}
	if len(out.keys) == 0 {
		return Keys{}, schema.Invalid(setting, "has no key")
	}
	return out, nil
}

// NewKey returns a new key in the form that Read takes.
func NewKey() string {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw) + "\n"
}

// HasKey reports whether there is a key.
func (k Keys) HasKey() bool { return len(k.keys) > 0 }

// Seal encrypts the secrets of a source. It returns nil if there are none.
func (k Keys) Seal(tenant, source uuid.UUID, secrets map[string]string) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	if len(k.keys) == 0 {
		return nil, ErrNoKey
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("write the secrets of source %s: %w", source, err)
	}
	first := k.keys[0]
	out := append([]byte{formatVersion}, first.name[:]...)
	nonce := make([]byte, first.aead.NonceSize())
	_, _ = rand.Read(nonce)
	out = append(out, nonce...)
	return first.aead.Seal(out, nonce, text, additionalData(tenant, source)), nil
}

// Open decrypts what Seal made for that source.
func (k Keys) Open(tenant, source uuid.UUID, sealed []byte) (map[string]string, error) {
	if len(sealed) == 0 {
		return map[string]string{}, nil
	}
	if len(k.keys) == 0 {
		return nil, ErrNoKey
	}
	if sealed[0] != formatVersion || len(sealed) < 1+nameSize {
		return nil, errors.New("the secrets of the source have a format that this version does not know")
	}
	name, rest := sealed[1:1+nameSize], sealed[1+nameSize:]
	for _, candidate := range k.keys {
		if !bytes.Equal(candidate.name[:], name) {
			continue
		}
		if len(rest) < candidate.aead.NonceSize() {
			break
		}
		text, err := candidate.aead.Open(nil, rest[:candidate.aead.NonceSize()], rest[candidate.aead.NonceSize():], additionalData(tenant, source))
		if err != nil {
			return nil, errors.New("the secrets of the source are damaged, or another source's; set them again")
		}
		out := map[string]string{}
		if err := json.Unmarshal(text, &out); err != nil {
			return nil, fmt.Errorf("read the secrets of source %s: %w", source, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the secrets of the source were encrypted with a key that is not in %s; add it there, or set them again: %w", KeyFile, schema.ErrConflict)
}

// additionalData returns the additional data that binds a ciphertext to its source.
func additionalData(tenant, source uuid.UUID) []byte { return append(tenant[:], source[:]...) }
