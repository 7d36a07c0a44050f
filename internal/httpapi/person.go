package httpapi

// A key with the impersonate scope may call for a person. Headers name the person and the groups,
// on every route. Such a request may do what the query scope allows, whatever else the key may do.

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
)

// Headers that name the person for whom a key calls, and the person's groups.
const (
	PersonHeader = "X-Sluice-Person"
	GroupsHeader = "X-Sluice-Groups"
)

const (
	maxPerson       = 256 // bytes
	maxPersonGroups = 100
	maxPersonGroup  = 256 // bytes
)

// actingFor returns p acting as the person in the headers. Without the headers it returns p.
func actingFor(h http.Header, p schema.Principal) (schema.Principal, error) {
	persons, groups := h.Values(PersonHeader), h.Values(GroupsHeader)
	if len(persons) == 0 && len(groups) == 0 {
		return p, nil
	}
	if !p.Has(schema.ScopeImpersonate) {
		return p, huma.Error403Forbidden("only a key with the impersonate scope may send " + PersonHeader + " and " + GroupsHeader)
	}
	if len(persons) > 1 {
		return p, headerError(PersonHeader, "comes more than once")
	}
	var scopes []schema.Scope
	if p.Has(schema.ScopeQuery) {
		scopes = append(scopes, schema.ScopeQuery)
	}
	if len(groups) == 0 { // the body of a query may still pass groups
		scopes = append(scopes, schema.ScopeImpersonate)
	}
	p.Scopes, p.Collections, p.Groups, p.Acting = scopes, nil, []string{}, true
	if len(persons) == 1 {
		var err error
		if p.Person, err = headerText(PersonHeader, persons[0], maxPerson); err != nil {
			return p, err
		}
	}
	for _, part := range strings.Split(strings.Join(groups, ","), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		group, err := headerText(GroupsHeader, part, maxPersonGroup)
		if err != nil {
			return p, err
		}
		if schema.Reserved(group) {
			return p, headerError(GroupsHeader, "names "+group+", which is reserved by the system")
		}
		if p.Groups = append(p.Groups, group); len(p.Groups) > maxPersonGroups {
			return p, headerError(GroupsHeader, fmt.Sprintf("has more than %d groups", maxPersonGroups))
		}
	}
	return p, nil
}

// headerText decodes one value of a header, in which commas and non-ASCII characters are
// percent-encoded as in URLs.
func headerText(name, value string, limit int) (string, error) {
	text, err := url.PathUnescape(strings.TrimSpace(value))
	switch {
	case err != nil:
		return "", headerError(name, "is not escaped as in URLs: write % as %25")
	case text == "":
		return "", headerError(name, "is empty")
	case len(text) > limit:
		return "", headerError(name, fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), limit))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", headerError(name, "is not UTF-8 without control characters")
	}
	return text, nil
}

func headerError(name, message string) error {
	return huma.Error422UnprocessableEntity(name+" "+message, &huma.ErrorDetail{Location: "header." + name, Message: message})
}

// personParameters describes the headers.
func personParameters() []*huma.Param {
	text := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
	return []*huma.Param{
		{Name: PersonHeader, In: "header", Schema: text(),
			Description: "For whom the key calls: a name or an id of its own choice. Needs the `impersonate` scope. The request sees what this person asked through the key, and may do what the `query` scope may."},
		{Name: GroupsHeader, In: "header", Schema: text(),
			Description: "The groups of the person, divided by commas, escaped as in URLs; without it they have none. Needs the `impersonate` scope."},
	}
}
