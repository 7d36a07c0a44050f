// Package iterator stands in for google.golang.org/api/iterator, for the client of Google Cloud
// Storage that stands in for the original beside it.
package iterator

import "errors"

// Done ends a list.
var Done = errors.New("no more items in iterator")
