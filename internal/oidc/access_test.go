package oidc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/oidc"
)

func opened(t *testing.T, rules string) (*oidc.Provider, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := oidc.New(oidc.Options{Issuer: "https://login.example", ClientID: "sluice", GroupsClaim: "groups", AccessFile: file})
	return p, file, err
}

func TestRulesAddUp(t *testing.T) {
	p, file, err := opened(t, `
rules:
  - {group: staff, tenant: acme, role: reader}
  - {group: legal, tenant: acme, role: contributor, labels: [contracts, staff]}
  - {group: legal, tenant: umbrella, role: admin, labels: []}
  - {group: root, tenant: umbrella, role: operator}
  - {group: staff, tenant: acme, role: contributor, collections: [news, wiki]}
  - {group: legal, tenant: acme, role: curator, collections: [wiki], labels: [wiki-board]}
  - {group: guests, tenant: acme, role: reader, collections: [news], labels: []}
`)
	if err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{
		"":            "[]",
		"Staff":       "[]",
		"staff":       "[{acme [query] [staff] [{news [ingest query] [staff]} {wiki [ingest query] [staff]}]}]",
		"staff,legal": "[{acme [ingest query] [contracts staff] [{news [ingest query] [staff]} {wiki [curate ingest query] [staff wiki-board]}]} {umbrella [admin] [] []}]",
		"root":        "[{umbrella [admin operator] [root] []}]",
		"guests":      "[{acme [] [] [{news [query] []}]}]",
	} {
		if got := fmt.Sprint(p.Grants(t.Context(), strings.Split(groups, ","))); got != want {
			t.Errorf("%q give %s, not %s", groups, got, want)
		}
	}
	// Changes apply at once, and a file that can't be read changes nothing.
	for _, text := range []string{"rules: [{group: staff, tenant: other, role: reader}]", "rules: [{group: staff, tenant: other, role: king}]"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Grants(t.Context(), []string{"staff"})); got != "[{other [query] [staff] []}]" {
			t.Errorf("%s gives %s", text, got)
		}
	}
}

func TestWrongRulesAreNamedWithTheirLine(t *testing.T) {
	for text, words := range map[string][]string{
		"":                                     {"empty"},
		"rules: x":                             {":1: rules", "list"},
		"rules:\n  - {group: a, tenant: b}":    {":2: role", "missing"},
		"rules:\n  - {group: a, role: reader}": {":2: tenant", "missing"},
		"rules:\n  - group: a\n    tenant: b\n    role: king":                                               {":2: role", "king", "reader, contributor, curator, admin, operator"},
		"rules:\n  - group: a\n    tennant: b":                                                              {":3: tennant", "not a field", "group, labels, role, tenant"},
		"rules:\n  - group: a\n    group: b":                                                                {":3: group", "twice"},
		"rules:\n  - group: []":                                                                             {":2: group", "text"},
		"rules: []\nmore: x":                                                                                {":2: more", "not a field"},
		"rules:\n  - {group: a, tenant: b, role: reader, labels: x}":                                        {":2: labels", "list"},
		"rules:\n  - {group: a, tenant: b, role: reader, labels: ['sluice:nobody']}":                        {":2: labels[0]", "nobody"},
		"rules:\n  - {group: " + strings.Repeat("a", 257) + ", tenant: b, role: reader}":                    {":2: group", "labels"},
		"rules:\n  - {group: a, tenant: b, role: reader, labels: [" + strings.Repeat("a", 257) + "]}":       {":2: labels[0]", "256"},
		"rules:\n  - {group: a, tenant: b, role: admin, collections: [c]}":                                  {":2: role", "admin", "whole tenant", "reader, contributor and curator"},
		"rules:\n  - {group: a, tenant: b, role: operator, collections: [c]}":                               {":2: role", "operator", "whole tenant"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: []}":                                  {":2: collections", "1 to 100", "whole tenant"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: }":                                    {":2: collections", "list"},
		"rules:\n  - group: a\n    collections: wiki\n    tenant: b\n    role: reader":                      {":3: collections", "list"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: [c, c]}":                              {":2: collections[1]", "twice"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: [c, a b]}":                            {":2: collections[1]", "a b", "letters"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: [{}]}":                                {":2: collections[0]", "text"},
		"rules:\n  - {group: a, tenant: b, role: reader, collections: [" + strings.Repeat("c,", 101) + "]}": {":2: collections", "1 to 100"},
		"rules: [": {"line"},
	} {
		_, file, err := opened(t, text)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		for _, word := range append(words, file) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v does not say %q", text, err, word)
			}
		}
	}
}
