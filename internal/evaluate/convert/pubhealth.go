package convert

// PubHealth (Kotonya and Toni 2020): claims, the articles that check them, and whether they
// are true.

import (
	"slices"
	"strings"
)

// verdicts are PubHealth's labels.
var verdicts = []string{"true", "false", "mixture", "unproven"}

func readPubHealth(s *set, in *input) error {
	// Some published rows end early, and have no label.
	return rows(in, false, []string{"claim_id", "claim", "label"}, func(line int, cell func(string) string) error {
		label := strings.ToLower(cell("label"))
		if !slices.Contains(verdicts, label) {
			s.drop("claims whose label is none of " + strings.Join(verdicts, ", "))
			return nil
		}
		q := &query{id: cell("claim_id"), text: cell("claim"), answers: []string{label}, choices: verdicts,
			place: position{"line", line}.String(), more: map[string]any{}}
		if q.text == "" {
			return missing("claim")
		}
		id, err := s.byContent("", cell("main_text"))
		if err != nil {
			return err
		}
		q.addDocument(id)
		q.judge(s.split(), id, 1)
		for _, column := range []string{"explanation", "subjects", "date_published"} {
			keep(q.more, column, cell(column))
		}
		return s.ask(q)
	})
}
