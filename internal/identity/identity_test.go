package identity_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/lexical"
)

func words(t *testing.T, language string) identity.Words {
	t.Helper()
	a, err := lexical.NewAnalyzer(language)
	if err != nil {
		t.Fatal(err)
	}
	return a.Terms
}

func TestQuestionsAndNamesOfFilesShareTerms(t *testing.T) {
	for _, c := range []struct{ name, question, terms string }{
		{"NORTHWIND_2018_10K.pdf", "What was Northwind's FY2018 revenue?", "northwind|y 2018"},
		{"reports/NORTHWIND_2018_10K.pdf", "revenue in the 10-K of fiscal year 2018", "y 2018|code 10k"},
		{"BLUEHARBOUR_2023Q2_10Q.pdf", "Blue Harbour's second quarter of 2023", "blueharbour|y 2023|q 2|q 2023-2"},
		{"BLUEHARBOUR_2023Q2_10Q.pdf", "Blue Harbour 2Q23", "q 2023-2"},
		{"BLUEHARBOUR_2023Q2_10Q.pdf", "Blue Harbour in Q2 FY2023", "q 2023-2"},
		{"Acme_8K_dated-2022-05-20.pdf", "What did Acme announce on May 20, 2022?", "acm|y 2022|m 2022-05|d 2022-05-20"},
		{"Acme_8K_dated_20220520.pdf", "Acme, 20 May 2022", "d 2022-05-20"},
		{"KD-40 dosing pump manual v2.3.md", "KD40: what changed in version 2.3?", "code kd40|v 2.3|v 2"},
		{"invoices/2041877.pdf", "What does invoice 2041877 charge for?", "n 2041877|invoic"},
		{"annualReport2021.docx", "the annual report for FY21", "annual|report|y 2021"},
		{"contract v3 final.docx", "the third version", ""},
		{"minutes-2024-03.md", "the minutes of March 2024", "minut|m 2024-03"},
	} {
		w := words(t, "en")
		have := identity.Naming{Names: []string{c.name}}.Terms(w)
		asked := identity.Asked(c.question, w)
		for term := range strings.SplitSeq(c.terms, "|") {
			if term != "" && !(slices.ContainsFunc(have, same(term)) && slices.ContainsFunc(asked, same(term))) {
				t.Errorf("%q and %q do not share %q: %q; %q", c.name, c.question, term, have, asked)
			}
		}
	}
}

func same(term string) func(string) bool {
	return func(s string) bool { return s == term || !strings.Contains(term, " ") && strings.HasPrefix(s, term) }
}

func TestKeysOfProgramsAreNoNames(t *testing.T) {
	w := words(t, "en")
	for name, want := range map[string]string{
		"5f2019ab-2018-4c11-9aef-0123456789ab.pdf": "pdf",
		"tatqa-3ffd9053-a45":                       "tatqa",
		"9e107d9d372bb6826bd81d3542a419d6":         "",
		"added-2018":                               "y 2018|ad",
		"20230505":                                 "y 2023|m 2023-05|d 2023-05-05|n 20230505",
	} {
		if got := strings.Join(identity.Naming{Names: []string{name}}.Terms(w), "|"); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

func TestPeriods(t *testing.T) {
	for text, want := range map[string][]identity.Period{
		"FY2018":                           {{Year: 2018}},
		"FY18":                             {{Year: 2018}},
		"fiscal 2018 and fiscal year 2017": {{Year: 2018}, {Year: 2017}},
		"Q3 of fiscal 2019":                {{Year: 2019, Quarter: 3}},
		"2023Q2":                           {{Year: 2023, Quarter: 2}},
		"Q22023":                           {{Year: 2023, Quarter: 2}},
		"the fourth quarter":               {{Quarter: 4}},
		"May 5, 2023":                      {{Year: 2023, Month: 5, Day: 5}},
		"May 5th, 2023":                    {{Year: 2023, Month: 5, Day: 5}},
		"5th of May 2023":                  {{Year: 2023, Month: 5, Day: 5}},
		"5. Mai 2023":                      {{Year: 2023, Month: 5, Day: 5}},
		"May 2023":                         {{Year: 2023, Month: 5}},
		"2023-05-05":                       {{Year: 2023, Month: 5, Day: 5}},
		"2023/05":                          {{Year: 2023, Month: 5}},
		"20230505":                         {{Year: 2023, Month: 5, Day: 5}},
		"v2.3.1, version 4":                {{Version: "2.3.1"}, {Version: "4"}},
		"you may ask 12 people":            nil,
		"page 2024 of 5000":                {{Year: 2024}},
		"1,234 of 99 in 2101":              nil,
		"99999999":                         nil,
		"Q7 and Q":                         nil,
		"FY":                               nil,
		"May":                              nil,
		"May 5":                            nil,
		"":                                 nil,
	} {
		if got := identity.Periods(text); !slices.Equal(got, want) {
			t.Errorf("Periods(%q) = %+v, want %+v", text, got, want)
		}
	}
}

func TestTheHeadGivesNamesAndItsFirstPeriods(t *testing.T) {
	head := "UNITED STATES\nFORM 10-K\nFor the fiscal year ended December 2, 2022\nBlue Harbour Systems Inc.\n" +
		"the aggregate market value as of June 3, 2021 was unimportant. As of January 6, 2019 there were shares."
	got := identity.Naming{Names: []string{"1.pdf"}, Head: head}.Terms(words(t, "en"))
	for _, want := range []string{"code 10k", "y 2022", "d 2022-12-02", "blue", "harbour", "system"} {
		if !slices.ContainsFunc(got, same(want)) {
			t.Errorf("the head gives no %q: %q", want, got)
		}
	}
	for _, not := range []string{"y 2019", "aggreg", "unimport"} {
		if slices.Contains(got, not) {
			t.Errorf("the head gives %q: %q", not, got)
		}
	}
}

func TestTermsAreFewAndEachOnce(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		long.WriteString(strings.Repeat(string(rune('a'+i%26)), 1+i%30) + " 2018 Q2 ")
	}
	got := identity.Naming{Title: long.String(), Metadata: []string{long.String()}}.Terms(words(t, "en"))
	if sorted := slices.Sorted(slices.Values(got)); len(got) > 400 || len(slices.Compact(sorted)) != len(got) {
		t.Errorf("%d terms, of which some occur twice", len(got))
	}
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{"FY2018 2023Q2 10-K", "May 5, 2023", "v2.3", "5.\x80 Mai", "Q", "ﬁscal ２０１８"} {
		f.Add(s)
	}
	a, err := lexical.NewAnalyzer("en")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		identity.Asked(s, a.Terms)
		for _, term := range (identity.Naming{Title: s, Names: []string{s}, Head: s}).Terms(a.Terms) {
			if term == "" || term[0] <= 1 {
				t.Errorf("%q gives the term %q", s, term)
			}
		}
	})
}
