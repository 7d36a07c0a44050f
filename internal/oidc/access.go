package oidc

// This file reads the access rules: which group of the provider gets which role in which tenant, or
// in which of its collections.

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

const (
	maxLabels = 100
	maxLabel  = 256 // bytes
)

// roles are the roles that rules may give, as scopes.
var roles = map[string][]schema.Scope{
	"reader":      {schema.ScopeQuery},
	"contributor": {schema.ScopeQuery, schema.ScopeIngest},
	"curator":     {schema.ScopeQuery, schema.ScopeIngest, schema.ScopeCurate},
	"admin":       {schema.ScopeAdmin},
	"operator":    {schema.ScopeOperator, schema.ScopeAdmin},
}

// The names of the roles, in order of their rights, and of those that may be given for single
// collections.
const (
	roleNames       = "reader, contributor, curator, admin, operator"
	collectionRoles = "reader, contributor and curator"
)

// rule is a rule of the file.
type rule struct {
	group, tenant, role string
	labels              []string
	collections         []string // where the role applies; none: in the whole tenant
}

// Grant is what rules allow somebody in one tenant.
type Grant struct {
	Tenant      string // its name
	Scopes      []schema.Scope
	Groups      []string
	Collections []CollectionGrant
}

// CollectionGrant is what rules additionally allow in the collection with that name, if there is
// one.
type CollectionGrant struct {
	Name   string
	Scopes []schema.Scope
	Groups []string
}

// accessFile is the file of access rules. It is read for every sign-in, so that changes apply at
// once; while it can't be read, the rules that were read last apply.
type accessFile struct {
	path string

	mu    sync.Mutex
	rules []rule
}

func openAccess(path string) (*accessFile, error) {
	rules, err := readRules(path)
	if err != nil {
		return nil, err
	}
	return &accessFile{path: path, rules: rules}, nil
}

func (f *accessFile) current(ctx context.Context) []rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules, err := readRules(f.path)
	if err != nil {
		slog.ErrorContext(ctx, "cannot read the access rules; the previous ones stay in force", "file", f.path, "error", err)
		return f.rules
	}
	f.rules = rules
	return rules
}

// Grants returns what the rules give to groups of the provider, by tenant and collection. Roles and
// labels of several rules add up.
func (p *Provider) Grants(ctx context.Context, groups []string) []Grant {
	type place struct{ tenant, collection string } // without a collection: the whole tenant
	scopes, labels := map[place][]schema.Scope{}, map[place][]string{}
	for _, r := range p.access.current(ctx) {
		if !slices.Contains(groups, r.group) {
			continue
		}
		in := r.collections
		if len(in) == 0 {
			in = []string{""}
		}
		for _, collection := range in {
			at := place{r.tenant, collection}
			scopes[at] = append(scopes[at], roles[r.role]...)
			labels[at] = append(labels[at], r.labels...)
		}
	}
	var out []Grant
	for _, at := range slices.SortedFunc(maps.Keys(scopes), func(a, b place) int {
		return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.collection, b.collection))
	}) {
		if len(out) == 0 || out[len(out)-1].Tenant != at.tenant {
			out = append(out, Grant{Tenant: at.tenant})
		}
		g, s, l := &out[len(out)-1], once(scopes[at]), once(labels[at])
		if at.collection == "" {
			g.Scopes, g.Groups = s, l
		} else {
			g.Collections = append(g.Collections, CollectionGrant{Name: at.collection, Scopes: s, Groups: l})
		}
	}
	return out
}

// once sorts a list and removes duplicates.
func once[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func readRules(path string) ([]rule, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rules of access (SLUICE_OIDC_ACCESS): %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, schema.Invalid(path, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	r := rulesReader{path: path}
	if len(document.Content) == 0 {
		return nil, schema.Invalid(path, "is empty; it needs a list of rules, for example \"rules: [{group: staff, tenant: default, role: reader}]\"")
	}
	var list *yaml.Node
	if err := r.fields(document.Content[0], map[string]func(*yaml.Node) error{"rules": func(n *yaml.Node) error { list = n; return nil }}); err != nil {
		return nil, err
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil, r.wrong(document.Content[0], "rules", "needs to be a list of rules")
	}
	var rules []rule
	for _, n := range list.Content {
		one, err := r.rule(n)
		if err != nil {
			return nil, err
		}
		rules = append(rules, one)
	}
	return rules, nil
}

// rulesReader parses the file of rules. Its errors name the line.
type rulesReader struct{ path string }

func (r rulesReader) wrong(n *yaml.Node, field, format string, args ...any) error {
	return schema.Invalid(fmt.Sprintf("%s:%d: %s", r.path, n.Line, field), format, args...)
}

// fields passes the value of each field of a mapping to the function for it.
func (r rulesReader) fields(n *yaml.Node, take map[string]func(*yaml.Node) error) error {
	known := strings.Join(slices.Sorted(maps.Keys(take)), ", ")
	if n.Kind != yaml.MappingNode {
		return r.wrong(n, "rules", "needs the fields %s", known)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		value, ok := take[name.Value]
		switch {
		case !ok:
			return r.wrong(name, name.Value, "is not a field; the fields are %s", known)
		case seen[name.Value]:
			return r.wrong(name, name.Value, "occurs twice")
		}
		seen[name.Value] = true
		if err := value(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r rulesReader) text(field string, into *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Value == "" {
			return r.wrong(n, field, "needs to be a text that is not empty")
		}
		*into = n.Value
		return nil
	}
}

func (r rulesReader) rule(n *yaml.Node) (rule, error) {
	var one rule
	var labels, collections *yaml.Node
	err := r.fields(n, map[string]func(*yaml.Node) error{
		"group": r.text("group", &one.group), "tenant": r.text("tenant", &one.tenant), "role": r.text("role", &one.role),
		"labels":      func(n *yaml.Node) error { labels = n; return nil },
		"collections": func(n *yaml.Node) error { collections = n; return nil },
	})
	if err != nil {
		return one, err
	}
	for _, f := range [][2]string{{"group", one.group}, {"tenant", one.tenant}, {"role", one.role}} {
		if f[1] == "" {
			return one, r.wrong(n, f[0], "is missing")
		}
	}
	if _, ok := roles[one.role]; !ok {
		return one, r.wrong(n, "role", "%q is not one of %s", one.role, roleNames)
	}
	if collections != nil {
		if one.collections, err = r.collections(collections); err != nil {
			return one, err
		}
		if slices.ContainsFunc(roles[one.role], func(s schema.Scope) bool { return !s.OfCollections() }) {
			return one, r.wrong(n, "role", "%q applies to the whole tenant and cannot be given for collections; %s can", one.role, collectionRoles)
		}
	}
	if labels == nil { // default: the group's own name
		if err := checkLabel(one.group); err != "" {
			return one, r.wrong(n, "group", "%q %s, so it cannot be a label: name the labels, for example \"labels: []\"", one.group, err)
		}
		one.labels = []string{one.group}
		return one, nil
	}
	if labels.Kind != yaml.SequenceNode || len(labels.Content) > maxLabels {
		return one, r.wrong(labels, "labels", "needs to be a list of at most %d texts", maxLabels)
	}
	for i, l := range labels.Content {
		var label string
		field := fmt.Sprintf("labels[%d]", i)
		if err := r.text(field, &label)(l); err != nil {
			return one, err
		}
		if err := checkLabel(label); err != "" {
			return one, r.wrong(l, field, "%q %s", label, err)
		}
		one.labels = append(one.labels, label)
	}
	return one, nil
}

// collections reads the names of a rule's collections.
func (r rulesReader) collections(n *yaml.Node) ([]string, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > schema.MaxKeyCollections {
		return nil, r.wrong(n, "collections", "needs to be a list of 1 to %d names of collections; without it the role applies to the whole tenant", schema.MaxKeyCollections)
	}
	var out []string
	for i, c := range n.Content {
		var name string
		field := fmt.Sprintf("collections[%d]", i)
		if err := r.text(field, &name)(c); err != nil {
			return nil, err
		}
		if err := schema.CheckCollectionName(fmt.Sprintf("%s:%d: %s", r.path, c.Line, field), name); err != nil {
			return nil, err
		}
		if slices.Contains(out, name) {
			return nil, r.wrong(c, field, "%q occurs twice", name)
		}
		out = append(out, name)
	}
	return out, nil
}

// checkLabel returns why a text cannot be a label; empty: it can.
func checkLabel(label string) string {
	switch {
	case len(label) > maxLabel:
		return fmt.Sprintf("has %d bytes; a label may have at most %d", len(label), maxLabel)
	case !utf8.ValidString(label) || strings.IndexByte(label, 0) >= 0:
		return "is not UTF-8 without U+0000"
	case schema.Reserved(label):
		return "is reserved by the system"
	}
	return ""
}
