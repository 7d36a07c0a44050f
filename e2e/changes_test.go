package e2e

// This file changes documents, and the labels of documents.

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func testChanges(t *testing.T, s *server) {
	folder := write(t, map[string]string{
		"bakery.txt":   "The bakery in Quillford opens at six in the morning and sells rye bread on Fridays.",
		"harbour.txt":  "The harbour master of Quillford collects mooring fees at the north pier.",
		"museum.md":    "# Museum\n\nThe clock museum shows ninety astronomical clocks.\n",
		"sub/hill.txt": "Nobody may light a fire on the hill between June and September.",
	})
	ingest := func() ingested {
		t.Helper()
		return into[ingested](t, s.sluice(t, "ingest", folder, "-c", "changes", "--wait", "--json").ok(t))
	}
	if r := ingest(); r.Uploaded != 4 || r.Ready != 4 {
		t.Fatalf("%+v", r)
	}

	// A changed file replaces its document.
	put(t, folder, "bakery.txt", "The bakery has moved to Elmstead, opens at nine o'clock and sells nothing but ginger biscuits.")
	if r := ingest(); r.Uploaded != 1 || r.Unchanged != 3 {
		t.Errorf("one of four files changed: %+v", r)
	}
	found := search(t, s, "changes", "When does the bakery open, and what does it sell?")
	if len(found) == 0 || found[0].ExternalID != "bakery.txt" || !containsAll(found[0].Text, []string{"nine o'clock", "ginger biscuits"}) {
		t.Errorf("found %+v", found)
	}
	for _, p := range found {
		if containsAll(p.Text, []string{"rye bread"}) {
			t.Errorf("the old text is still found: %q", p.Text)
		}
	}
	shown := show(t, s, "changes", "bakery.txt")
	if len(shown.Versions) != 2 || shown.Versions[0].State != schema.StateReady || shown.Versions[1].State != schema.StateSuperseded {
		t.Errorf("the versions are %+v", shown.Versions)
	}

	// The earlier content is a new version, too.
	put(t, folder, "bakery.txt", "The bakery in Quillford opens at six in the morning and sells rye bread on Fridays.")
	if r := ingest(); r.Uploaded != 1 || r.Ready != 4 {
		t.Errorf("the file is as it was: %+v", r)
	}
	if found := search(t, s, "changes", "Where is rye bread sold?"); len(found) == 0 || !containsAll(found[0].Text, []string{"rye bread"}) {
		t.Errorf("found %+v", found)
	}

	// A deleted document is hidden immediately.
	s.sluice(t, "documents", "delete", "harbour.txt", "-c", "changes").ok(t).has(t, "harbour.txt")
	if found := search(t, s, "changes", "Who collects mooring fees?"); slices.Contains(names(found), "harbour.txt") {
		t.Error("a deleted document is found")
	}
	if _, there := documents(t, s, "changes")["harbour.txt"]; there {
		t.Error("a deleted document is listed")
	}
	for _, c := range ask(t, s, "changes", "Who collects mooring fees in Quillford?").Citations {
		if c.Document == "harbour.txt" {
			t.Error("a deleted document is cited")
		}
	}
	s.sluice(t, "documents", "delete", "harbour.txt", "-c", "changes").fails(t, "harbour.txt", "not found")

	// A document that was deleted on the server can be ingested again.
	if r := ingest(); r.Uploaded != 1 || r.Ready != 4 {
		t.Errorf("a file was deleted there: %+v", r)
	}
	if found := search(t, s, "changes", "Who collects mooring fees?"); len(found) == 0 || found[0].ExternalID != "harbour.txt" {
		t.Errorf("found %v", names(found))
	}

	// A single file, with a prefix.
	s.sluice(t, "ingest", filepath.Join(folder, "museum.md"), "-c", "changes", "--prefix", "copy/", "--wait").ok(t)
	if _, there := documents(t, s, "changes")["copy/museum.md"]; !there {
		t.Error("copy/museum.md is not there")
	}
	s.sluice(t, "collections", "delete", "changes").fails(t, "--yes")
	s.sluice(t, "collections", "delete", "changes", "--yes").ok(t)
	s.call(t, http.MethodGet, "/v1/collections/changes", nil).problem(t, http.StatusNotFound, "")
}

func ask(t *testing.T, s *server, collection, question string, more ...string) schema.Answer {
	t.Helper()
	return into[schema.Answer](t, s.sluice(t, append([]string{"ask", question, "-c", collection, "--json"}, more...)...).ok(t))
}

func testFilter(t *testing.T, s *server) {
	for name, metadata := range map[string][]string{
		"north-2023.txt": {"year=2023", "region=north", "signed=2023-04-01"},
		"north-2025.txt": {"year=2025", "region=north", "signed=2025-04-01"},
		"south-2025.txt": {"year=2025", "region=south", "region=coast", "signed=2025-09-30"},
	} {
		args := []string{"ingest", filepath.Join(write(t, map[string]string{name: "The lease of depot " + name + " runs for twelve years."}), name), "-c", "filters", "--wait"}
		for _, m := range metadata {
			args = append(args, "--metadata", m)
		}
		s.sluice(t, args...).ok(t)
	}
	for filter, want := range map[string][]string{
		"":                               {"north-2023.txt", "north-2025.txt", "south-2025.txt"},
		"year = 2025":                    {"north-2025.txt", "south-2025.txt"},
		"year < 2025":                    {"north-2023.txt"},
		"year >= 2024 and region=north":  {"north-2025.txt"},
		"region in (south, west)":        {"south-2025.txt"},
		"region = coast":                 {"south-2025.txt"},
		`signed >= "2025-05-01"`:         {"south-2025.txt"},
		"year = 1999":                    {},
		"department = finance":           {},
		"region in (north,coast,nobody)": {"north-2023.txt", "north-2025.txt", "south-2025.txt"},
	} {
		var more []string
		if filter != "" {
			more = []string{"--filter", filter}
		}
		got := names(search(t, s, "filters", "How long does the lease of the depot run?", more...))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", filter, got, want)
		}
	}
	for _, c := range ask(t, s, "filters", "How long does the lease of the depot run?", "--filter", "year = 2023").Citations {
		if c.Document != "north-2023.txt" {
			t.Errorf("the filter lets %s through", c.Document)
		}
	}
	s.sluice(t, "search", "lease", "-c", "filters", "--filter", "year is 2025").fails(t, "filter")
}

func testLabels(t *testing.T, s *server) {
	folder := write(t, map[string]string{"bonus.txt": "The bonus of the directors is four monthly salaries."})
	s.sluice(t, "ingest", folder, "-c", "labels", "--label", "board", "--label", "audit", "--wait").ok(t)
	open := write(t, map[string]string{"lunch.txt": "The directors have lunch in the canteen at noon."})
	s.sluice(t, "ingest", open, "-c", "labels", "--wait").ok(t)

	const question = "What is the bonus of the directors?"
	for _, c := range []struct {
		name   string
		groups []string
		sees   []string
	}{
		{"nobody", nil, []string{"lunch.txt"}},
		{"other", []string{"sales"}, []string{"lunch.txt"}},
		{"board", []string{"board"}, []string{"bonus.txt", "lunch.txt"}},
		{"auditor", []string{"sales", "audit"}, []string{"bonus.txt", "lunch.txt"}},
	} {
		args := []string{"keys", "create", c.name, "--scope", "query", "--json"}
		for _, g := range c.groups {
			args = append(args, "--group", g)
		}
		made := into[api.KeyCreated](t, s.sluice(t, args...).ok(t))
		reader := s.withKey(made.APIKey)
		got := names(search(t, reader, "labels", question))
		slices.Sort(got)
		if !slices.Equal(got, c.sees) {
			t.Errorf("a key with groups %v finds %v, want %v", c.groups, got, c.sees)
		}
		answer := ask(t, reader, "labels", question)
		if told := containsAll(answer.Answer, []string{"four monthly salaries"}); told != slices.Contains(c.sees, "bonus.txt") {
			t.Errorf("a key with groups %v is told %q", c.groups, answer.Answer)
		}
		listed := documents(t, reader, "labels")
		if _, there := listed["bonus.txt"]; there != slices.Contains(c.sees, "bonus.txt") || len(listed) != len(c.sees) {
			t.Errorf("a key with groups %v has %d documents listed", c.groups, len(listed))
		}
		// A job keeps the groups of the key that started it.
		if job := awaitJob(t, reader, startJob(t, reader, "labels", question)); job.Result == nil ||
			containsAll(job.Result.Answer, []string{"four monthly salaries"}) != slices.Contains(c.sees, "bonus.txt") {
			t.Errorf("the job of a key with groups %v: %+v", c.groups, job.Result)
		}
	}

	// Without labels, everybody sees the document immediately.
	id := documents(t, s, "labels")["bonus.txt"].ID
	s.call(t, http.MethodPatch, "/v1/documents/"+id.String(), map[string]any{"labels": []string{}}).want(t, http.StatusOK)
	plain := into[api.KeyCreated](t, s.sluice(t, "keys", "create", "after", "--json").ok(t))
	if got := names(search(t, s.withKey(plain.APIKey), "labels", question)); !slices.Contains(got, "bonus.txt") {
		t.Errorf("a document whose labels were taken away is not found: %v", got)
	}
	// The command sets labels again.
	s.sluice(t, "documents", "change", "bonus.txt", "-c", "labels").fails(t, "--label", "--metadata")
	s.sluice(t, "documents", "change", "bonus.txt", "-c", "labels", "--label", "board", "--metadata", "year=2026").ok(t).has(t, "bonus.txt")
	s.sluice(t, "documents", "show", "bonus.txt", "-c", "labels").ok(t).has(t, "labels [board]", "year=2026")
	s.sluice(t, "access", "explain", "--document", "bonus.txt", "-c", "labels", "--key", plain.ID.String()).ok(t).has(t, "no:", "board")
	if got := names(search(t, s.withKey(plain.APIKey), "labels", question)); slices.Contains(got, "bonus.txt") {
		t.Errorf("a document that was given a label is found: %v", got)
	}
	s.sluice(t, "documents", "change", "bonus.txt", "-c", "labels", "--open").ok(t)
	s.sluice(t, "documents", "show", "bonus.txt", "-c", "labels").ok(t).has(t, "year=2026")
	s.sluice(t, "access", "explain", "--document", "bonus.txt", "-c", "labels", "--key", plain.ID.String()).ok(t).has(t, "yes:")
	// A revoked key has no access.
	s.sluice(t, "keys", "revoke", plain.ID.String()).ok(t)
	s.withKey(plain.APIKey).sluice(t, "search", question, "-c", "labels").fails(t, "revoked")
}
