// Package docs has the pages of the documentation, for programs that show them.
package docs

import "embed"

// Pages are the pages, in Markdown, and their pictures.
//
//go:embed *.md images
var Pages embed.FS
