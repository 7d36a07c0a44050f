// Package iterator replaces google.golang.org/api/iterator, for the replaced client of Google Cloud
// Storage.
package iterator

import "errors"

// Done marks the end of a list.
var Done = errors.New("no more items in iterator")
