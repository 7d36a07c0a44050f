package answer

import (
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestOtherPeriodsAreSaid(t *testing.T) {
	report := schema.Citation{Document: "ACME_2022_10K.pdf", Quote: "Capital expenditure was $12 million."}
	dated := schema.Citation{Document: "ACME_2022_10K.pdf", Quote: "In 2018 it was $9 million."}
	titled := schema.Citation{Document: "7.pdf", Title: "Annual report FY2022", Quote: "It was $12 million."}
	plain := schema.Citation{Document: "notes.md", Quote: "It was $12 million."}
	for _, c := range []struct {
		question  string
		citations []schema.Citation
		want      []string
	}{
		{"What was the capital expenditure in FY2018?", []schema.Citation{report, report}, []string{"The question asks for 2018; ACME_2022_10K.pdf is of 2022."}},
		{"What was the capital expenditure in FY2018?", []schema.Citation{report, dated}, nil},
		{"What was the capital expenditure in 2018?", []schema.Citation{titled, plain}, []string{"The question asks for 2018; Annual report FY2022 is of 2022."}},
		{"What was the capital expenditure in 2022?", []schema.Citation{report}, nil},
		{"What was the capital expenditure?", []schema.Citation{report}, nil},
	} {
		if got := otherPeriods(c.question, c.citations); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.question, got, c.want)
		}
	}
}
