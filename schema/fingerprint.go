package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Attributes are the data that an upload has of a document besides its bytes.
type Attributes struct {
	Title    string   `json:"title,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Metadata Metadata `json:"metadata,omitempty"`
}

// Fingerprint identifies an upload by the SHA-256 (hex) of its bytes and its attributes. Two
// uploads of a document with the same fingerprint are the same, so the second is not processed.
// Client and server compute it in the same way.
func Fingerprint(contentSHA256 string, a Attributes) (string, error) {
	labels := slices.Clone(a.Labels)
	slices.Sort(labels)
	a.Labels = slices.Compact(labels)
	if len(a.Metadata) == 0 {
		a.Metadata = nil
	}
	canonical, err := json.Marshal(a) // map keys are sorted
	if err != nil {
		return "", fmt.Errorf("encode attributes: %w", err)
	}
	h := sha256.New()
	h.Write([]byte(contentSHA256))
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil)), nil
}
