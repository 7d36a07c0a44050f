package schema

import (
	"time"

	"github.com/google/uuid"
)

// SourceDocument begins the external ids of documents that sources add; the source's id follows.
const SourceDocument = "source:"

// SourcePrincipal is a user or a group of a source whose permissions are applied.
type SourcePrincipal struct {
	ID       string          `json:"id" doc:"Its id in the source; it never changes."`
	Group    bool            `json:"group"`
	Name     string          `json:"name,omitempty" doc:"Shown to people. Nothing is decided by it."`
	Email    string          `json:"email,omitempty" doc:"As name."`
	Members  int             `json:"members" doc:"Users and groups that a group has itself."`
	Mappings []AccessMapping `json:"mappings" doc:"Who it is here."`
}

// AccessSubject is a person, key or group of the tenant.
type AccessSubject struct {
	Kind  AccessKind `json:"kind" enum:"person,key,group,asker" doc:"A person of the identity provider; an API key or a person's row among them; a group of keys and people, as rules of access give it; or whom X-Sluice-Person names."`
	Value string     `json:"value" minLength:"1" maxLength:"1100" doc:"Of a person the issuer, \"|\", and their sub; of a key its id; else the name."`
}

// AccessKind is the kind of an AccessSubject.
type AccessKind string

// Kinds of subjects.
const (
	AccessPerson AccessKind = "person"
	AccessKey    AccessKind = "key"
	AccessGroup  AccessKind = "group"
	AccessAsker  AccessKind = "asker"
)

// AccessMapping maps a subject of the tenant to a principal of a source.
type AccessMapping struct {
	Source    uuid.UUID `json:"source"`
	Principal string    `json:"principal"`
	AccessSubject
	CreatedAt time.Time `json:"created_at"`
}

// AccessEntry allows or denies access to a principal of a source.
type AccessEntry struct {
	Principal string `json:"principal" minLength:"1" maxLength:"512" doc:"Its id in the source; * is everyone."`
	Deny      bool   `json:"deny,omitempty"`
	Rank      int    `json:"rank,omitempty" minimum:"0" maximum:"100" doc:"The lowest with an entry for somebody decides; within a rank, denial goes first."`
}

// AccessNode is the permissions of an item of a source or, for a folder, of the items in it.
type AccessNode struct {
	ID       string          `json:"id" minLength:"1" maxLength:"1024" doc:"In the source."`
	Folder   string          `json:"folder,omitempty" maxLength:"1024" doc:"That it is in; absent: in none."`
	Entries  []AccessEntry   `json:"entries,omitempty" maxItems:"1000"`
	Inherits bool            `json:"inherits,omitempty" doc:"Where no entry decides, its folder does."`
	Requires [][]AccessEntry `json:"requires,omitempty" maxItems:"100" doc:"Lists each of which has to let somebody in, too."`
}

// PushedPrincipal is the current state of a user or a group of a source.
type PushedPrincipal struct {
	ID      string   `json:"id" minLength:"1" maxLength:"512" doc:"In the source, for good."`
	Group   bool     `json:"group,omitempty"`
	Name    string   `json:"name,omitempty" maxLength:"512"`
	Email   string   `json:"email,omitempty" maxLength:"512"`
	Members []string `json:"members,omitempty" maxItems:"10000" doc:"All that a group has itself, by their ids."`
}

// AccessPush is a change of a source's permissions. The next complete listing replaces all changes.
type AccessPush struct {
	Principals []PushedPrincipal `json:"principals,omitempty" maxItems:"1000" doc:"New or changed ones, whole."`
	Removed    []string          `json:"removed,omitempty" maxItems:"1000" doc:"Principals that are gone, with their mappings."`
	Folders    []AccessNode      `json:"folders,omitempty" maxItems:"1000" doc:"New or changed ones, whole."`
	Items      []AccessNode      `json:"items,omitempty" maxItems:"1000" doc:"Changed ones, whole."`
}

// AccessPushed is the result of an AccessPush.
type AccessPushed struct {
	Documents int  `json:"documents" doc:"That got another label."`
	Waiting   bool `json:"waiting" doc:"More are to get one. Until then nobody sees those that have their old labels."`
}

// AccessExplanation explains why somebody may or may not see a document.
type AccessExplanation struct {
	Document uuid.UUID      `json:"document"`
	Allowed  bool           `json:"allowed"`
	Reason   string         `json:"reason" doc:"In words."`
	Source   *uuid.UUID     `json:"source,omitempty" doc:"Whose permissions decide; absent: labels do."`
	Item     string         `json:"item,omitempty" doc:"The document's id in the source."`
	Label    string         `json:"label,omitempty" doc:"Names the access list."`
	Labels   []string       `json:"labels" doc:"Of the document's newest version."`
	Entries  []AccessRule   `json:"entries" doc:"Of the access list, in the order in which they decide. Each of its lists has to let somebody in."`
	Decided  *AccessRule    `json:"decided,omitempty" doc:"The entry that decided; absent: there is none for them."`
	Holds    []AccessHolder `json:"holds" doc:"Which principals of the source they are, and how."`
}

// AccessRule is an entry of an access list.
type AccessRule struct {
	List      int    `json:"list"`
	Level     int    `json:"level"`
	Principal string `json:"principal"`
	Name      string `json:"name,omitempty"`
	Deny      bool   `json:"deny"`
	Known     bool   `json:"known" doc:"The source has such a principal."`
}

// AccessHolder is a principal that a subject is mapped to, directly or through groups.
type AccessHolder struct {
	Principal string   `json:"principal"`
	Name      string   `json:"name,omitempty"`
	Through   []string `json:"through" doc:"The mapping, and from member to group."`
}
