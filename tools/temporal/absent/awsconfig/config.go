// Package config stands in for github.com/aws/aws-sdk-go-v2/config, with which the Temporal server
// finds out who it is at Amazon. A server for one machine is nobody there.
package config

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
)

var errAbsent = errors.New("this Temporal server is built without Amazon's services")

// What the server names of the original.
type (
	LoadOptions     struct{}
	LoadOptionsFunc func(*LoadOptions) error
	EnvConfig       struct{ Credentials aws.Credentials }
)

// LoadDefaultConfig fails.
func LoadDefaultConfig(context.Context, ...func(*LoadOptions) error) (aws.Config, error) {
	return aws.Config{}, errAbsent
}

// NewEnvConfig fails.
func NewEnvConfig() (EnvConfig, error) { return EnvConfig{}, errAbsent }

// WithRegion does nothing.
func WithRegion(string) LoadOptionsFunc { return func(*LoadOptions) error { return nil } }

// WithClientLogMode does nothing.
func WithClientLogMode(aws.ClientLogMode) LoadOptionsFunc {
	return func(*LoadOptions) error { return nil }
}
