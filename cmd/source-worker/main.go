// Command source-worker keeps collections in step with places: it reads file services, web sites,
// repositories and mailboxes. Any number may run. It is a module of its own, so that no other
// program grows by the libraries that it needs.
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

// drivers are the kinds of places that it reads; sourceworker has that of folders.
func drivers() []source.Driver {
	return append(rclonefs.Drivers(), web.Driver(), git.Driver(), mailbox.Driver())
}
