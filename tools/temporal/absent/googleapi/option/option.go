// Package option stands in for google.golang.org/api/option, for the client of Google Cloud Storage
// that stands in for the original beside it.
package option

import "golang.org/x/oauth2"

// ClientOption is what a client is made with.
type ClientOption struct{ source oauth2.TokenSource }

// WithTokenSource is one of them.
func WithTokenSource(s oauth2.TokenSource) ClientOption { return ClientOption{s} }
