package schema

import (
	"fmt"

	"github.com/google/uuid"
)

// NewID returns a UUIDv7: time-ordered, so that rows written together lie
// together. It panics only when the operating system's randomness fails.
// Workflow code must not call it.
func NewID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("schema: no randomness for a new id: %v", err))
	}
	return id
}

// ParseID parses the textual id of the named field.
func ParseID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, &FieldError{Field: field, Problem: fmt.Sprintf("%q is not a UUID", text)}
	}
	return id, nil
}
