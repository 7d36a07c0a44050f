package store_test

// This file tests permissions with a random model: after every step, what the store allows each
// person for each document is compared with a reference implementation that shares no code with it.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
)

// accessModel applies steps to the reference and to the store.
type accessModel struct {
	*fixture
	t           *testing.T
	random      *rand.Rand
	of          uuid.UUID
	remoteModel *remoteModel
	made        int
	people      []schema.Principal
	who         [][]schema.AccessSubject // the subjects of the people
	applied     []string                 // the last steps
}

func (m *accessModel) pick(from []string) string { return from[m.random.IntN(len(from))] }

// principal returns the id of an existing principal, or, rarely, of a missing one.
func (m *accessModel) principal() string {
	all := m.principals()
	if len(all) == 0 || m.random.IntN(20) == 0 {
		return "nobody-" + fmt.Sprint(m.random.IntN(3))
	}
	return m.pick(all)
}

func (m *accessModel) principals() []string {
	var out []string
	for id := range m.remoteModel.groups {
		out = append(out, id)
	}
	for id := range m.remoteModel.users {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (m *accessModel) groups() []string {
	var out []string
	for id := range m.remoteModel.groups {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (m *accessModel) folders() []string {
	var out []string
	for id := range m.remoteModel.folders {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (m *accessModel) rules() (out []rule) {
	for range m.random.IntN(4) {
		r := rule{who: m.principal(), deny: m.random.IntN(3) == 0, rank: m.random.IntN(3)}
		if m.random.IntN(8) == 0 {
			r.who = "*"
		}
		out = append(out, r)
	}
	return out
}

func entries(rules []rule) (out []schema.AccessEntry) {
	for _, r := range rules {
		out = append(out, schema.AccessEntry{Principal: r.who, Deny: r.deny, Rank: r.rank})
	}
	return out
}

func (t accessNode) node(id string) schema.AccessNode {
	n := schema.AccessNode{ID: id, Folder: t.in, Inherits: t.inherits, Entries: entries(t.rules)}
	for _, need := range t.needs {
		n.Requires = append(n.Requires, entries(need))
	}
	return n
}

func (m *accessModel) pushedPrincipal(id string) schema.PushedPrincipal {
	p := schema.PushedPrincipal{ID: id, Name: m.remoteModel.names[id]}
	members, group := m.remoteModel.groups[id]
	p.Group = group
	for member := range members {
		p.Members = append(p.Members, member)
	}
	slices.Sort(p.Members)
	return p
}

func (m *accessModel) push(push schema.AccessPush) {
	m.t.Helper()
	if err := m.PushAccess(m.t.Context(), m.a, m.of, push); err != nil {
		m.t.Fatal(err)
	}
}

// step makes a change in the reference and in the store.
func (m *accessModel) step() string {
	all, groups, folders := m.principals(), m.groups(), m.folders()
	change := func(what string) string {
		id := "i" + fmt.Sprint(m.random.IntN(len(m.remoteModel.items)))
		of, isFolder := m.remoteModel.items[id], false
		if m.random.IntN(2) == 0 && len(folders) > 0 {
			id, isFolder = m.pick(folders), true
			of = m.remoteModel.folders[id]
		}
		switch what {
		case "grant":
			of.rules = append(of.rules, rule{who: m.principal(), rank: m.random.IntN(3)})
		case "deny":
			of.rules = append(of.rules, rule{who: m.principal(), deny: true, rank: m.random.IntN(3)})
		case "revoke":
			of.rules = m.rules()
		case "require":
			if of.needs = nil; m.random.IntN(3) == 0 {
				of.needs = [][]rule{{{who: m.principal()}, {who: m.principal()}}}
			}
		case "inherit":
			of.inherits = !of.inherits
		case "move":
			if of.in = ""; len(folders) > 0 {
				of.in = m.pick(folders)
			}
		}
		if len(of.rules) > 4 {
			of.rules = of.rules[1:]
		}
		if isFolder {
			m.push(schema.AccessPush{Folders: []schema.AccessNode{of.node(id)}})
		} else {
			m.push(schema.AccessPush{Items: []schema.AccessNode{of.node(id)}})
		}
		return what + " " + id
	}
	switch m.random.IntN(18) {
	case 0, 1:
		return change("grant")
	case 2:
		return change("deny")
	case 3:
		return change("revoke")
	case 4:
		return change("inherit")
	case 5, 6:
		return change("move")
	case 7:
		return change("require")
	case 8: // a new user or group; names are used again, ids are not
		m.made++
		id := fmt.Sprintf("p%d", m.made)
		if m.remoteModel.names[id] = m.pick([]string{"Ann", "Staff", "Legal"}); m.random.IntN(2) == 0 {
			m.remoteModel.users[id] = true
		} else {
			m.remoteModel.groups[id] = map[string]bool{}
		}
		m.push(schema.AccessPush{Principals: []schema.PushedPrincipal{m.pushedPrincipal(id)}})
		return "new " + id
	case 9:
		if len(all) < 8 {
			return "too few to remove one"
		}
		id := m.pick(all)
		delete(m.remoteModel.users, id)
		delete(m.remoteModel.groups, id)
		delete(m.remoteModel.mapped, id)
		for _, members := range m.remoteModel.groups {
			delete(members, id)
		}
		m.push(schema.AccessPush{Removed: []string{id}})
		return "remove " + id
	case 10, 11, 12:
		if len(groups) == 0 {
			return "no group"
		}
		id, member := m.pick(groups), m.pick(all)
		if m.remoteModel.groups[id][member] {
			delete(m.remoteModel.groups[id], member)
		} else {
			m.remoteModel.groups[id][member] = true
		}
		m.push(schema.AccessPush{Principals: []schema.PushedPrincipal{m.pushedPrincipal(id)}})
		return "nest or unnest " + member + " in " + id
	case 13, 14, 15:
		if len(all) == 0 {
			return "nobody"
		}
		id, of := m.pick(all), m.random.IntN(len(m.who))
		who := m.who[of][m.random.IntN(len(m.who[of]))]
		if m.remoteModel.mapped[id][who] {
			delete(m.remoteModel.mapped[id], who)
			if err := m.UnmapPrincipal(m.t.Context(), m.a, m.of, id, who); err != nil {
				m.t.Fatal(err)
			}
			return fmt.Sprint("unmap ", id, who)
		}
		if m.remoteModel.mapped[id] == nil {
			m.remoteModel.mapped[id] = map[schema.AccessSubject]bool{}
		}
		m.remoteModel.mapped[id][who] = true
		if _, err := m.MapPrincipal(m.t.Context(), m.a, m.of, id, who); err != nil {
			m.t.Fatal(err)
		}
		return fmt.Sprint("map ", id, who)
	case 16:
		m.made++
		id := fmt.Sprintf("f%d", m.made)
		if len(folders) > 6 { // remove one
			gone := m.pick(folders)
			delete(m.remoteModel.folders, gone)
			m.in(func(ctx context.Context, tx pgx.Tx) error {
				return access.Forget(ctx, tx, m.a.Tenant, m.of, nil, []string{gone})
			})
			return "remove folder " + gone
		}
		m.remoteModel.folders[id] = &accessNode{inherits: m.random.IntN(2) == 0, rules: m.rules()}
		m.push(schema.AccessPush{Folders: []schema.AccessNode{m.remoteModel.folders[id].node(id)}})
		return "new folder " + id
	}
	return m.list()
}

// list lists everything, as a synchronization does.
func (m *accessModel) list() string {
	var principals []source.Principal
	for _, id := range m.principals() {
		principal := m.pushedPrincipal(id)
		principals = append(principals, source.Principal{ID: id, Group: principal.Group, Name: principal.Name, Members: principal.Members})
	}
	var folders []source.AccessFolder
	for id, f := range m.remoteModel.folders {
		folders = append(folders, source.AccessFolder{ID: id, Folder: f.in, Access: f.access()})
	}
	var items []source.Item
	for id, i := range m.remoteModel.items {
		own := i.access()
		items = append(items, source.Item{ID: id, Folder: i.in, Access: &own})
	}
	run := schema.NewID()
	m.in(func(ctx context.Context, tx pgx.Tx) error {
		var pushed int64
		if err := tx.QueryRow(ctx, `SELECT pushed FROM source_access WHERE source_id = $1`, m.of).Scan(&pushed); err != nil {
			return err
		}
		if err := access.SetPrincipals(ctx, tx, m.a.Tenant, m.of, run, pushed-1, principals); !errors.Is(err, schema.ErrConflict) {
			m.t.Errorf("what was listed before a push: %v", err)
		}
		if err := access.SetPrincipals(ctx, tx, m.a.Tenant, m.of, run, pushed, principals); err != nil {
			return err
		}
		if err := access.Note(ctx, tx, m.a.Tenant, m.of, run, folders, items); err != nil {
			return err
		}
		return access.ForgetUnseen(ctx, tx, m.a.Tenant, m.of, run)
	})
	return "list everything"
}

func (t accessNode) access() source.Access {
	list := func(rules []rule) (out []source.AccessEntry) {
		for _, r := range rules {
			out = append(out, source.AccessEntry{Principal: r.who, Deny: r.deny, Rank: r.rank})
		}
		return out
	}
	a := source.Access{Entries: list(t.rules), Inherits: t.inherits}
	for _, need := range t.needs {
		a.Requires = append(a.Requires, list(need))
	}
	return a
}

func (m *accessModel) in(do func(ctx context.Context, tx pgx.Tx) error) {
	m.t.Helper()
	if err := m.AsTenant(m.t.Context(), m.a.Tenant, do); err != nil {
		m.t.Fatal(err)
	}
}

// compare compares what everybody sees with the reference. While documents wait for their labels
// nobody may see too much; once settled, nobody may see too little either.
func (m *accessModel) compare(settled bool) {
	m.t.Helper()
	given := map[string]string{}
	m.in(func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT node, given FROM access_nodes WHERE source_id = $1 AND NOT is_folder`, m.of)
		if err != nil {
			return err
		}
		var node, label string
		_, err = pgx.ForEachRow(rows, []any{&node, &label}, func() error {
			given[node] = label
			return nil
		})
		return err
	})
	if len(given) != len(m.remoteModel.items) {
		m.t.Fatalf("%d items, of %d", len(given), len(m.remoteModel.items))
	}
	for i, p := range m.people {
		labels, revision, err := m.AccessLabels(m.t.Context(), p)
		if err != nil {
			m.t.Fatal(err)
		}
		if settled && revision == 0 {
			m.t.Fatalf("person %d: the labels cannot be cached, though no document waits, after:\n%s", i, strings.Join(m.applied, "\n"))
		}
		for item, label := range given {
			sees, may := slices.Contains(labels, label), m.remoteModel.sees(m.who[i], item)
			if sees && !may || settled && may && !sees {
				m.t.Fatalf("person %d, item %s: sees it %t, may %t, settled %t, after:\n%s", i, item, sees, may, settled, strings.Join(m.applied, "\n"))
			}
		}
	}
}

// settle sets the labels that documents should have, as workers do, after comparing what is visible
// until then.
func (m *accessModel) settle() {
	m.t.Helper()
	stale, err := m.StaleItems(m.t.Context(), m.a.Tenant, m.of, 1000)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(stale) == 0 {
		return
	}
	m.compare(false)
	before := m.labels()
	m.in(func(ctx context.Context, tx pgx.Tx) error {
		for _, s := range stale {
			p := schema.Principal{Tenant: m.a.Tenant, Writes: &schema.SourceWrite{Source: m.of, Item: s.Item}}
			if err := access.MayLabel(ctx, tx, p, "", []string{s.Label}); err != nil {
				return err
			}
		}
		return nil
	})
	for i, now := range m.labels() {
		if was := before[i]; was.revision == now.revision && !slices.Equal(was.labels, now.labels) {
			m.t.Fatalf("person %d: revision %d gave %q and gives %q, after:\n%s", i, now.revision, was.labels, now.labels, strings.Join(m.applied, "\n"))
		}
	}
}

// revisedLabels are a person's labels, as they may be cached until there is another revision.
type revisedLabels struct {
	labels   []string
	revision int64
}

func (m *accessModel) labels() []revisedLabels {
	m.t.Helper()
	out := make([]revisedLabels, len(m.people))
	for i, p := range m.people {
		var err error
		if out[i].labels, out[i].revision, err = m.AccessLabels(m.t.Context(), p); err != nil {
			m.t.Fatal(err)
		}
	}
	return out
}

// followedSource creates a source whose permissions are followed, with a number of items that have
// documents.
func (f *fixture) followedSource(t *testing.T, items int) uuid.UUID {
	t.Helper()
	id := schema.NewID()
	if _, err := f.CreateSource(t.Context(), f.a, schema.NewSource{ID: id, CollectionID: f.collection, Name: "s" + id.String(), Driver: "folder", Paused: true,
		SourceSettings: schema.SourceSettings{Settings: map[string]string{source.PermissionsSetting: source.FollowPermissions}, MaxShorter: 100}}); err != nil {
		t.Fatal(err)
	}
	if err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var listed []source.Item
		for i := range items {
			item := fmt.Sprint("i", i)
			if _, err := tx.Exec(ctx, `INSERT INTO source_items (tenant_id, source_id, item, path, document_id, run_id) VALUES ($1, $2, $3, $3, $4, $4)`,
				f.a.Tenant, id, item, schema.NewID()); err != nil {
				return err
			}
			listed = append(listed, source.Item{ID: item, Access: &source.Access{}})
		}
		if err := access.Note(ctx, tx, f.a.Tenant, id, schema.NewID(), nil, listed); err != nil {
			return err
		}
		for _, item := range listed {
			label := source.Effective(*item.Access, nil).Label(id)
			if err := access.MayLabel(ctx, tx, schema.Principal{Tenant: f.a.Tenant, Writes: &schema.SourceWrite{Source: id, Item: item.ID}}, "", []string{label}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPermissionsAgainstAReference takes PERMISSION_STEPS steps, by default 1,500.
func TestPermissionsAgainstAReference(t *testing.T) {
	steps := 1_500
	if text := os.Getenv("PERMISSION_STEPS"); text != "" {
		var err error
		if steps, err = strconv.Atoi(text); err != nil {
			t.Fatalf("PERMISSION_STEPS: %v", err)
		}
	}
	f := setUp(t, store.Options{})
	const items = 8
	seed := rand.Uint64()
	t.Log("seed", seed)
	m := &accessModel{fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 0)), of: f.followedSource(t, items), remoteModel: &remoteModel{
		groups: map[string]map[string]bool{}, users: map[string]bool{}, names: map[string]string{}, folders: map[string]*accessNode{}, items: map[string]*accessNode{},
		mapped: map[string]map[schema.AccessSubject]bool{}}}
	for i := range items {
		m.remoteModel.items[fmt.Sprint("i", i)] = &accessNode{}
	}
	key, err := f.CreateKey(t.Context(), f.a, f.a.Tenant, schema.SealedKey{NewKey: schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}}, Hash: []byte("a key's hash")})
	if err != nil {
		t.Fatal(err)
	}
	m.people = []schema.Principal{
		{Tenant: f.a.Tenant, Key: key.ID},
		{Tenant: f.a.Tenant, Key: key.ID, Acting: true, Person: "ann"},
		{Tenant: f.a.Tenant, Key: key.ID, Acting: true, Person: "bob", Groups: []string{"staff"}},
	}
	m.who = [][]schema.AccessSubject{
		{{Kind: schema.AccessKey, Value: key.ID.String()}},
		{{Kind: schema.AccessAsker, Value: "ann"}},
		{{Kind: schema.AccessAsker, Value: "bob"}, {Kind: schema.AccessGroup, Value: "staff"}},
	}
	seen := 0
	for n := range steps {
		m.applied = append(m.applied, m.step())
		m.applied = m.applied[max(0, len(m.applied)-20):]
		m.settle()
		m.compare(true)
		for i := range m.people {
			for item := range m.remoteModel.items {
				if m.remoteModel.sees(m.who[i], item) {
					seen++
				}
			}
		}
		if n%1000 == 999 {
			t.Logf("%d steps; somebody saw a document %d times", n+1, seen)
		}
	}
	if seen < steps {
		t.Errorf("in %d steps somebody saw a document %d times: the model shows little", steps, seen)
	}
}
