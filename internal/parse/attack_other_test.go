//go:build !linux

package parse

import "github.com/sluice-rag/sluice/schema"

func attack(string) (schema.Parsed, error) { return schema.Parsed{}, nil }
