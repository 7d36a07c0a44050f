package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/schema"
)

// credentialsFile is where they are in a data directory.
const credentialsFile = "client.json"

// Credentials are how to reach a server, and what `sluice up` says when it is
// ready.
type Credentials struct {
	URL    string `json:"url"`
	APIKey string `json:"api_key"`
	Data   string `json:"data"`
}

// ReadCredentials reads what `sluice up` left in its data directory.
func ReadCredentials(data string) (Credentials, error) {
	var c Credentials
	raw, err := os.ReadFile(filepath.Join(data, credentialsFile))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read %s: %w", filepath.Join(data, credentialsFile), err)
	}
	return c, nil
}

// WriteCredentials leaves them in the data directory, for its owner alone.
func WriteCredentials(c Credentials) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	path := filepath.Join(c.Data, credentialsFile)
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	return nil
}

// Find returns a client for the given address and key, or, for what is not
// given, those in the data directory.
func Find(ca, address, key, data string) (*Client, error) {
	if address == "" || key == "" {
		c, err := ReadCredentials(data)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: no server has run with its data in %s: start one with `sluice up`, name the --data of another, "+
				"or set SLUICE_URL and SLUICE_API_KEY", schema.ErrUnavailable, data)
		case err != nil:
			return nil, err
		}
		switch {
		case address == "":
			address = c.URL
		case key == "" && address != c.URL:
			// A key is never sent to a server that it was not made for.
			return nil, schema.Invalid("SLUICE_API_KEY", "must be set for %s", address)
		}
		if key == "" {
			key = c.APIKey
		}
	}
	return Trusting(ca, address, key)
}
