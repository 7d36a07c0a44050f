package mcpserver

// How an assistant finds out where its user signs in, according to the protocol's authorization:
// RFC 9728.

import (
	"encoding/json"
	"net/http"

	"github.com/sluice-rag/sluice/internal/httpapi"
)

// Authorization says where people sign in for whom assistants act. The zero value means nowhere:
// requests carry API keys.
type Authorization struct {
	Issuer    string // the provider whose access tokens are accepted; empty: none are
	PublicURL string // address of the server for clients, without a slash at the end; empty: the address that a request was sent to
}

// metadataPath is the path of a resource's metadata. The metadata of Path is also below it.
const metadataPath = "/.well-known/oauth-protected-resource"

// resourceMetadata is the metadata of a protected resource (RFC 9728).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

func (a Authorization) mount(mux *http.ServeMux) {
	if a.Issuer == "" {
		return
	}
	metadata := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*") // assistants in browsers read it; it is not secret
		_ = json.NewEncoder(w).Encode(resourceMetadata{Resource: a.at(r) + Path, AuthorizationServers: []string{a.Issuer},
			BearerMethods: []string{"header"}, Name: "Sluice"}) // the client may have disconnected
	}
	mux.HandleFunc("GET "+metadataPath, metadata)
	mux.HandleFunc("GET "+metadataPath+Path, metadata)
}

// challenge returns the WWW-Authenticate header for a request without a valid key.
func (a Authorization) challenge(r *http.Request) string {
	if a.Issuer == "" {
		return "Bearer"
	}
	return `Bearer resource_metadata="` + a.at(r) + metadataPath + Path + `"`
}

// at returns the address of the server for clients.
func (a Authorization) at(r *http.Request) string {
	if a.PublicURL != "" {
		return a.PublicURL
	}
	return httpapi.OwnAddress(r)
}
