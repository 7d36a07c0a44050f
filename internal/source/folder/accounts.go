package folder

// Users and groups, from files in the form of /etc/passwd and /etc/group.

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/source"
)

// maxAccounts bounds the size of such a file.
const maxAccounts = 64 << 20

type user struct {
	name, full string
	uid, gid   uint32
}

type group struct {
	name    string
	gid     uint32
	members []string // names of users
}

// readTable reads the lines of a setting's file. Errors name the line, but nothing of its content.
func readTable[T any](c *connector, field, file string, parse func(columns []string) (T, string)) ([]T, error) {
	f, err := c.openFile(field, file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxAccounts+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the file of the setting %s: %w", field, err)
	case len(data) > maxAccounts:
		return nil, &source.FieldError{Field: field, Reason: fmt.Sprintf("has more than %d MiB", maxAccounts>>20)}
	case len(data) > 0 && data[len(data)-1] != '\n':
		return nil, fmt.Errorf("the file of the setting %s ends within a line; is it being written? Put a whole one in its place", field)
	}
	var out []T
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		problem := "is an entry for NIS, which is not asked"
		var one T
		if line[0] != '+' && line[0] != '-' {
			one, problem = parse(strings.Split(line, ":"))
		}
		if problem != "" {
			return nil, &source.FieldError{Field: field, Reason: fmt.Sprintf("line %d %s; `getent %s` writes such a file", n, problem, systemFiles[field])}
		}
		out = append(out, one)
	}
	return out, nil
}

func parseUser(columns []string) (u user, problem string) {
	if len(columns) != 7 {
		return u, fmt.Sprintf("has %d fields; a user has 7, divided by colons", len(columns))
	}
	var okUID, okGID bool
	u.uid, okUID = parseID(columns[2])
	u.gid, okGID = parseID(columns[3])
	if !okUID || !okGID {
		return u, "has no numbers for the user and the group, in its fields 3 and 4"
	}
	u.name = columns[0]
	u.full, _, _ = strings.Cut(columns[4], ",")
	return u, ""
}

func parseGroup(columns []string) (g group, problem string) {
	if len(columns) != 4 {
		return g, fmt.Sprintf("has %d fields; a group has 4, divided by colons", len(columns))
	}
	var ok bool
	if g.gid, ok = parseID(columns[2]); !ok {
		return g, "has no number for the group, in its field 3"
	}
	g.name = columns[0]
	for name := range strings.SplitSeq(columns[3], ",") {
		if name = strings.TrimSpace(name); name != "" {
			g.members = append(g.members, name)
		}
	}
	return g, ""
}

func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}

// principals returns users and groups, each once. A user is a member of their primary group,
// whether or not that has a line. If several names share a number, the first name is shown, and the
// memberships of all of them count.
func principals(users []user, groups []group) []source.Principal {
	var out []source.Principal
	idByName, index := map[string]string{}, map[string]int{}
	for _, u := range users {
		id := uid(u.uid)
		if _, exists := idByName[u.name]; !exists {
			idByName[u.name] = id
		}
		if _, exists := index[id]; !exists {
			index[id] = len(out)
			out = append(out, source.Principal{ID: id, Name: displayName(u)})
		}
	}
	groupPrincipal := func(n uint32, name string) *source.Principal {
		id := gid(n)
		if _, exists := index[id]; !exists {
			index[id] = len(out)
			out = append(out, source.Principal{ID: id, Group: true, Name: name})
		}
		return &out[index[id]]
	}
	for _, g := range groups {
		p := groupPrincipal(g.gid, g.name)
		for _, name := range g.members {
			if id, exists := idByName[name]; exists {
				p.Members = append(p.Members, id)
			}
		}
	}
	for _, u := range users {
		p := groupPrincipal(u.gid, "")
		p.Members = append(p.Members, uid(u.uid))
	}
	for i := range out {
		slices.Sort(out[i].Members)
		out[i].Members = slices.Compact(out[i].Members)
	}
	return out
}

// displayName returns the display name of a user: the login and the full name.
func displayName(u user) string {
	if u.full == "" || u.full == u.name {
		return u.name
	}
	return u.name + ", " + u.full
}
