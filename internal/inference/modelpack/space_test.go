package modelpack

import (
	"testing"
)

// spaces are the SHA-256 sums of encoder.onnx and its tokenizer for each space that was ever
// shipped. An entry must never change: vectors of collections in that space can only be compared
// with vectors made by these files.
var spaces = map[string][2]string{
	"sluice-static-256-v1": { // 1.0.0 to 1.4.0
		"365d0608f6e60bb93f780584b76d5967e506eff768ccaf0bb7959da25e317dd7",
		"e17d010413c88512c22a974ba084c0a6999d7600fc290a2670927c3708ccf6c9",
	},
	"bge-small-en-v1.5-int8-v1": {
		"f2d6b0ef9b4aac4294a811bd86e10465c7a768f46d6cf2bd911ac16e4cd0b287",
		"7ecbcccb66006163557ba604bad5ba2b203dc21ecb856385f12176de1a26584b",
	},
}

// TestEachEncoderHasItsOwnSpace: a shipped pack with another encoder must have another space, so
// that its vectors are never compared with those of existing collections.
func TestEachEncoderHasItsOwnSpace(t *testing.T) {
	t.Chdir("../../..") // where the shipped packs are
	for _, name := range shippedNames() {
		d, err := readDocument(shippedPath(name))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Space     string
			Tokenizer struct{ SHA256 string }
			Encoder   struct {
				SHA256    string
				Tokenizer struct{ SHA256 string }
			}
		}
		if err := d.root.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Encoder.Tokenizer.SHA256 == "" {
			m.Encoder.Tokenizer = m.Tokenizer
		}
		if got := [2]string{m.Encoder.SHA256, m.Encoder.Tokenizer.SHA256}; spaces[m.Space] != got {
			t.Errorf("the pack %s makes vectors of space %q with encoder and tokenizer %v, which is of %v: name another space, and add it here", name, m.Space, got, spaces[m.Space])
		}
	}
}
