package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// serviceContract returns the paragraphs of a contract.
func serviceContract(days, fee string) []string {
	return []string{
		"This service contract is made between Larkfield Water Works and the supplier Tannery Pumps for the maintenance of the pumping stations along the river.",
		"The supplier inspects every pumping station twice a year, in spring before the flood season and in autumn after the irrigation has ended, and writes a report of each inspection.",
		"Either party may end this contract with a notice period of " + days + " days in writing, addressed to the registered office of the other party.",
		"The customer pays a monthly fee of EUR " + fee + " for the maintenance of all stations, due on the tenth working day of each month.",
		"Spare parts that cost more than a hundred euro are invoiced apart, after the customer has agreed to them, and stay under warranty for two years.",
		"The supplier keeps the drawings, passwords and keys of the stations secret and hands them back when the contract has ended.",
		"Disputes are settled by the courts of Larkfield, and changes of this contract need the written consent of both parties.",
	}
}

// testVersions stores three versions of a contract with different names and formats. They are
// recognised as versions of one text. The newest one answers, unless an older one is asked for, and
// the answer says how they differ.
func testVersions(t *testing.T, s *server) {
	const newest, second, first = "contract v3 final.docx", "contract_v2.md", "contract-v1.txt"
	s.sluice(t, "ingest", write(t, map[string]string{
		first:  strings.Join(serviceContract("30", "4100"), "\n\n"),
		newest: zippedDOCX(t, strings.Join(serviceContract("90", "4800"), " ")),
		second: "# Service contract\n\n" + strings.Join(serviceContract("60", "4500"), "\n\n"),
		"minutes.md": "The council of Larkfield met to speak about the new bridge, which is to be open to carts and to people on foot, " +
			"and about the fair in summer, whose stands were let to traders from three valleys. The council found that the old mill must have a new roof.",
	}), "-c", "versions", "--wait").ok(t)

	// The details of each document list the others.
	list := into[[]schema.Document](t, s.sluice(t, "documents", "list", "-c", "versions", "--json").ok(t))
	shown := map[string]api.DocumentDetail{}
	for _, d := range list {
		shown[d.ExternalID] = as[api.DocumentDetail](t, s.call(t, http.MethodGet, "/v1/documents/"+d.ID.String(), nil).want(t, http.StatusOK))
	}
	near := func(name string) (out []string) {
		for _, n := range shown[name].NearDuplicates {
			if n.Similarity < 0.6 || n.By != schema.NewerByVersion {
				t.Errorf("%s: %+v", name, n)
			}
			age := " is older"
			if n.Newer {
				age = " is newer"
			}
			out = append(out, n.ExternalID+age)
		}
		slices.Sort(out)
		return out
	}
	for name, want := range map[string][]string{
		first:        {newest + " is newer", second + " is newer"},
		second:       {newest + " is newer", first + " is older"},
		newest:       {first + " is older", second + " is older"},
		"minutes.md": nil,
	} {
		slices.Sort(want)
		if got := near(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q; %s", name, got, want, shown[name].NotCompared)
		}
	}
	if d := shown["minutes.md"]; d.NotCompared == "" && d.NearDuplicates == nil {
		t.Errorf("of the minutes it is not said what they were compared with: %+v", d)
	}
	s.sluice(t, "documents", "show", second, "-c", "versions").ok(t).has(t, "near-duplicate", newest, "newer by its version number", first, "older")

	ask := func(question, document, figure string, notes ...string) {
		t.Helper()
		a := into[schema.Answer](t, s.sluice(t, "ask", question, "-c", "versions", "--plan", "sluice", "--risk", "1", "--json").ok(t))
		if !a.Supported || len(a.Citations) == 0 || a.Citations[0].Document != document || !strings.Contains(a.Answer, figure) {
			t.Errorf("%q: %q from %+v; want %s of %s", question, a.Answer, a.Citations, figure, document)
			return
		}
		said := strings.Join(a.Notes, "\n")
		for _, want := range append(notes, "Versions differ") {
			if !strings.Contains(said, want) {
				t.Errorf("%q: the notes do not say %q: %q", question, want, a.Notes)
			}
		}
	}
	ask("How many days is the notice period?", newest, "90", newest+" (newer, by its version number)", second, "60 days", first, "30 days")
	ask("How much is the monthly fee for the maintenance?", newest, "4800", "EUR 4500", "EUR 4100")
	ask("How many days is the notice period in v2 of the contract?", second, "60", newest+" (newer, by its version number)", "90 days")
	ask("How many days is the notice period in v1 of the contract?", first, "30", "90 days")

	// An answer that all versions agree on has no note.
	a := into[schema.Answer](t, s.sluice(t, "ask", "How often does the supplier inspect every pumping station?", "-c", "versions", "--risk", "1", "--json").ok(t))
	if !a.Supported || a.Citations[0].Document != newest || len(a.Notes) > 0 {
		t.Errorf("%q of %+v with the notes %q", a.Answer, a.Citations, a.Notes)
	}
	// A plan without the stage has no notes about versions.
	a = into[schema.Answer](t, s.sluice(t, "ask", "How many days is the notice period?", "-c", "versions", "--plan", "naive", "--risk", "1", "--json").ok(t))
	if len(a.Notes) > 0 {
		t.Errorf("plan naive: %q", a.Notes)
	}
	// After the newest is deleted, the previous one answers.
	s.sluice(t, "documents", "delete", newest, "-c", "versions").ok(t)
	ask("How many days is the notice period?", second, "60", first, "30 days")
}
