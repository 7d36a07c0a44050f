package segment

import "github.com/google/uuid"

// VersionText is what one version adds to the index. Passages tile sections, and sections tile the
// version's text. Title counts only toward the whole document, once.
type VersionText struct {
	Entry    uuid.UUID // id of these postings, also used by their tombstone
	Version  uuid.UUID
	Title    []string     // analysed terms
	Labels   []string     // none: visible to everyone in the tenant
	Identity []string     // terms of the document's names, each once; a field of its own, not part of the text
	Sections [][][]string // analysed terms by section and passage
}
