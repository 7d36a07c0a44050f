//go:build !linux

package parse

import "github.com/sluice-rag/sluice/schema"

func attack(string) (schema.Parsed, error) { return schema.Parsed{}, nil }

// runIfAttacker does nothing, since programs are not confined on this system.
func runIfAttacker() bool { return false }
