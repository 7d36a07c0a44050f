// Package config replaces github.com/aws/aws-sdk-go-v2/config, with which the Temporal server finds
// its AWS credentials. A server for one machine has none.
package config

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
)

var errAbsent = errors.New("this Temporal server is built without Amazon's services")

// The types that the server uses.
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
