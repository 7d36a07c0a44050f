// Package types has the types of Amazon S3 that the Temporal server uses.
package types

// Types of a listing.
type (
	CommonPrefix struct{ Prefix *string }
	Object       struct{ Key *string }
)

// Errors of missing buckets and objects. Nothing returns them.
type (
	NoSuchBucket struct{}
	NoSuchKey    struct{}
	NotFound     struct{}
)

func (*NoSuchBucket) Error() string { return "no such bucket" }
func (*NoSuchKey) Error() string    { return "no such key" }
func (*NotFound) Error() string     { return "not found" }
