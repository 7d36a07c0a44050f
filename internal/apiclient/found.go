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

// credentialsFile is the name of the file with the credentials in a data directory.
const credentialsFile = "client.json"

// Credentials are the address and the key of a server, which `sluice up` prints when it is ready.
type Credentials struct {
	URL    string `json:"url"`
	APIKey string `json:"api_key"`
	Data   string `json:"data"`
}

// ReadCredentials reads the credentials that `sluice up` wrote to its data directory.
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

// WriteCredentials writes the credentials to the data directory, readable only by its owner.
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

// Find returns a client for an address and a key. If one is empty it is taken from the credentials
// in the data directory.
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
			// A key is never sent to a server for which it was not made.
			return nil, schema.Invalid("SLUICE_API_KEY", "must be set for %s", address)
		}
		if key == "" {
			key = c.APIKey
		}
	}
	return Trusting(ca, address, key)
}
