package receipt

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Signer signs with an installation's newest key.
type Signer struct {
	keys []ed25519.PrivateKey // the first one signs
}

// PublicKey is a key by which receipts are verified.
type PublicKey struct{ key ed25519.PublicKey }

// ID identifies the key: the SHA-256 of its 32 bytes, in hex.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k.key)
	return hex.EncodeToString(sum[:])
}

// String returns the key in the form that ParsePublic reads.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k.key) }

// Public returns the keys by which the signer's receipts are verified: first the one that signs,
// then the earlier ones.
func (s *Signer) Public() []PublicKey {
	out := make([]PublicKey, len(s.keys))
	for i, key := range s.keys {
		out[i] = PublicKey{key.Public().(ed25519.PublicKey)}
	}
	return out
}

// Sign sets the receipt's format and key and returns it as it is served.
func (s *Signer) Sign(r Receipt) ([]byte, error) {
	r.Format, r.Key = Format, s.Public()[0].ID()
	signed, err := encode(r)
	if err != nil {
		return nil, err
	}
	out, err := encode(signedReceipt{r, base64.StdEncoding.EncodeToString(ed25519.Sign(s.keys[0], signed))})
	if err != nil {
		return nil, err
	}
	out = append(out, '\n')
	if _, err := Open(out, s.Public()[:1]); err != nil {
		return nil, fmt.Errorf("this answer cannot have a receipt: %w", err)
	}
	return out, nil
}

// Open checks the form of a receipt and that one of the keys signed it, and returns the receipt.
func Open(data []byte, keys []PublicKey) (Receipt, error) {
	d, err := decode(data)
	if err != nil {
		return Receipt{}, err
	}
	signed, err := encode(d.Receipt)
	if err != nil {
		return Receipt{}, err
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(d.Signature)
	if err != nil || base64.StdEncoding.EncodeToString(signature) != d.Signature {
		return Receipt{}, errors.New("its signature is no base64: it was changed")
	}
	for _, key := range keys {
		if key.ID() != d.Receipt.Key {
			continue
		}
		if ed25519.Verify(key.key, signed, signature) {
			return d.Receipt, nil
		}
		return Receipt{}, errors.New("its signature is not of what it says: it was changed")
	}
	return Receipt{}, fmt.Errorf("it names the key %.64q, which is none of those that are trusted", d.Receipt.Key)
}

// ParsePublic parses a file of public keys: one per line, of 44 characters, and nothing else.
func ParsePublic(text string) ([]PublicKey, error) {
	var out []PublicKey
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		key, err := base64.StdEncoding.Strict().DecodeString(line)
		if !ended || err != nil || len(key) != ed25519.PublicKeySize || base64.StdEncoding.EncodeToString(key) != line {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in base64 and the end of the line", len(out)+1, ed25519.PublicKeySize)
		}
		out = append(out, PublicKey{key})
	}
	if len(out) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return out, nil
}

// ParseSigner parses a file of private keys: 32 random bytes in base64 per line. The first key
// signs; the others signed earlier. # begins a comment.
func ParseSigner(text string) (*Signer, error) {
	s := &Signer{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		seed, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("line %d is not %d bytes in base64", n, ed25519.SeedSize)
		}
		s.keys = append(s.keys, ed25519.NewKeyFromSeed(seed))
	}
	if len(s.keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return s, nil
}

// ReadSigner reads the file, which setting names in errors; without a file there is no signer.
func ReadSigner(setting, file string) (*Signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &schema.FieldError{Field: setting, Problem: err.Error()}
	}
	s, err := ParseSigner(string(text))
	if err != nil {
		return nil, schema.Invalid(setting, "%s: %v", file, err)
	}
	return s, nil
}

// MakeKey creates a file with a new private key, readable for its owner only, unless it exists.
func MakeKey(file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	// Linked to its name once it is complete, so that a file from another process is not
	// overwritten.
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".new-") // 0600
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.WriteString(base64.StdEncoding.EncodeToString(seed) + "\n")
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	if err := os.Link(temporary.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}
