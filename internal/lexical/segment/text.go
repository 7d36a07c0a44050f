package segment

import "github.com/google/uuid"

// VersionText is what one version adds to the index. Passages tile sections and
// sections tile the version's text; Title counts toward the whole document
// alone, once.
type VersionText struct {
	Entry    uuid.UUID // names these postings; a tombstone names it too
	Version  uuid.UUID
	Title    []string     // analysed terms
	Labels   []string     // none: open to everyone in the tenant
	Identity []string     // what the document is called, each once; a field of its own, no part of the text
	Sections [][][]string // analysed terms by section and passage
}
