package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/httpapi"
)

// TestTypesAreOfTheAPI: every schema has a type. `tools/web check`, which needs npm, also compares
// the fields.
func TestTypesAreOfTheAPI(t *testing.T) {
	types, err := os.ReadFile("../../web/src/types.ts")
	if err != nil {
		t.Fatal(err)
	}
	reply := httptest.NewRecorder()
	httpapi.New(httpapi.Options{}).ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", http.NoBody))
	var document struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(reply.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Components.Schemas) == 0 {
		t.Fatal("the API's document has no schemas")
	}
	for name := range document.Components.Schemas {
		if !strings.Contains(string(types), "\nexport type "+name+" = components['schemas']['"+name+"'];\n") {
			t.Errorf("web/src/types.ts has no type %s: run tools/web types", name)
		}
	}
}
