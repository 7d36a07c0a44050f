package mcpserver

// How an assistant finds out where its user signs in, as the protocol's authorization says: RFC
// 9728.

import (
	"encoding/json"
	"net/http"

	"github.com/sluice-rag/sluice/internal/httpapi"
)

// Authorization is where people sign in whom assistants act for. The zero value is nowhere:
// requests carry API keys.
type Authorization struct {
	Issuer    string // of the provider whose access tokens are taken; empty: none are
	PublicURL string // where clients reach the server, without a slash at the end; empty: where a request found it
}

// metadataPath is where the metadata of a resource is found; those of Path are below, too.
const metadataPath = "/.well-known/oauth-protected-resource"

// resourceMetadata is what RFC 9728 calls the metadata of a protected resource.
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
		w.Header().Set("Access-Control-Allow-Origin", "*") // assistants in browsers read it; it is no secret
		_ = json.NewEncoder(w).Encode(resourceMetadata{Resource: a.at(r) + Path, AuthorizationServers: []string{a.Issuer},
			BearerMethods: []string{"header"}, Name: "Sluice"}) // the caller may be gone
	}
	mux.HandleFunc("GET "+metadataPath, metadata)
	mux.HandleFunc("GET "+metadataPath+Path, metadata)
}

// challenge is what a request without a good key is told.
func (a Authorization) challenge(r *http.Request) string {
	if a.Issuer == "" {
		return "Bearer"
	}
	return `Bearer resource_metadata="` + a.at(r) + metadataPath + Path + `"`
}

// at is where clients reach the server.
func (a Authorization) at(r *http.Request) string {
	if a.PublicURL != "" {
		return a.PublicURL
	}
	return httpapi.OwnAddress(r)
}
