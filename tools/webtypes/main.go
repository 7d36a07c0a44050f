// Command webtypes prints the schemas of the API's OpenAPI document, from which `tools/web types`
// generates web/src/types.ts.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/sluice-rag/sluice/internal/httpapi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "webtypes: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	reply := httptest.NewRecorder()
	httpapi.New(httpapi.Options{}).ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))
	var document map[string]any
	if err := json.Unmarshal(reply.Body.Bytes(), &document); err != nil {
		return fmt.Errorf("the API's document: %w", err)
	}
	document["paths"] = struct{}{} // the back office has paths of its own
	return json.NewEncoder(os.Stdout).Encode(document)
}
