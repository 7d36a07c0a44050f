// Package option replaces google.golang.org/api/option, for the replaced client of Google Cloud
// Storage.
package option

import "golang.org/x/oauth2"

// ClientOption is an option of a client.
type ClientOption struct{ source oauth2.TokenSource }

// WithTokenSource returns an option with a token source.
func WithTokenSource(s oauth2.TokenSource) ClientOption { return ClientOption{s} }
