package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed docs.html
var docsHTML []byte

// docsPage serves a page that shows /openapi.json. It loads nothing from other hosts.
func docsPage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(docsHTML)
}
