// Package types has what the Temporal server names of the types of Amazon S3.
package types

// What a listing would have.
type (
	CommonPrefix struct{ Prefix *string }
	Object       struct{ Key *string }
)

// Errors that would tell of what is not there. Nothing returns them.
type (
	NoSuchBucket struct{}
	NoSuchKey    struct{}
	NotFound     struct{}
)

func (*NoSuchBucket) Error() string { return "no such bucket" }
func (*NoSuchKey) Error() string    { return "no such key" }
func (*NotFound) Error() string     { return "not found" }
