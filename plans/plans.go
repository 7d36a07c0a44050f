// Package plans holds the retrieval plans that ship with Sluice: one YAML file
// each, named after the plan. Package retrieval reads and runs them.
package plans

import "embed"

// FS holds the plans.
//
//go:embed *.yaml
var FS embed.FS

// Default is the plan of a question that names none.
const Default = "sluice"
