// Command source-worker keeps collections in step with sources: file services, web sites,
// repositories and mailboxes. Any number may run. It is a separate Go module, so that no other
// program depends on the libraries that it needs.
package main

import (
	"github.com/sluice-rag/sluice/cmd/internal/sourceworker"
	"github.com/sluice-rag/sluice/cmd/source-worker/git"
	"github.com/sluice-rag/sluice/cmd/source-worker/mailbox"
	"github.com/sluice-rag/sluice/cmd/source-worker/rclonefs"
	"github.com/sluice-rag/sluice/cmd/source-worker/web"
	"github.com/sluice-rag/sluice/internal/source"
)

// version is set by the build.
var version = "dev"

func main() { sourceworker.Main(version, drivers()) }

// drivers returns all drivers but that of folders, which sourceworker has.
func drivers() []source.Driver {
	return append(rclonefs.Drivers(), web.Driver(), git.Driver(), mailbox.Driver())
}
