package schema

import (
	"fmt"

	"github.com/google/uuid"
)

// NewID returns a UUIDv7. It is ordered by time, so that rows written together are stored together.
// NewID panics only if the operating system's random number generator fails. Workflow code must not
// call it.
func NewID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("schema: no randomness for a new id: %v", err))
	}
	return id
}

// ParseID parses an id. An error names field.
func ParseID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, &FieldError{Field: field, Problem: fmt.Sprintf("%q is not a UUID", text)}
	}
	return id, nil
}
