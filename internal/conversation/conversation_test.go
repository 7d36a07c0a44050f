package conversation

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// dialogueCase is the last question of a dialogue.
type dialogueCase struct {
	history  []schema.Turn
	question string
	whole    []string // any of these; none: it stays as it is
}

func readDialogues(t *testing.T, file string) []dialogueCase {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []dialogueCase
	for _, block := range strings.Split(string(data), "\n\n") {
		var c dialogueCase
		for line := range strings.Lines(block) {
			kind, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch kind {
			case "U:":
				c.history = append(c.history, schema.Turn{Role: schema.RoleUser, Content: text})
			case "A:":
				c.history = append(c.history, schema.Turn{Role: schema.RoleAssistant, Content: text})
			case "Q:":
				c.question = text
			case "=":
				c.whole = append(c.whole, text)
			}
		}
		if c.question != "" {
			out = append(out, c)
		}
	}
	return out
}

// TestDialogues counts how many dependent questions the rules make standalone correctly, and how
// many standalone ones they leave alone, in dialogues that the rules were written with and in
// held-out ones.
func TestDialogues(t *testing.T) {
	for _, c := range []struct {
		file         string
		whole, alone int // at least
	}{{"testdata/dialogues.txt", 17, 10}, {"testdata/heldout.txt", 17, 10}} {
		t.Run(c.file, func(t *testing.T) {
			all := readDialogues(t, c.file)
			var whole, alone, dependent int
			for _, d := range all {
				got, changed := Standalone(d.history, d.question)
				right := slices.Contains(d.whole, got) && changed
				if len(d.whole) == 0 {
					right = !changed && got == d.question
				} else {
					dependent++
				}
				switch {
				case !right:
					t.Logf("%q after %q becomes %q, not %q", d.question, d.history, got, d.whole)
				case len(d.whole) == 0:
					alone++
				default:
					whole++
				}
			}
			t.Logf("made whole rightly: %d of %d; left alone rightly: %d of %d", whole, dependent, alone, len(all)-dependent)
			if whole < c.whole || alone < c.alone {
				t.Errorf("made whole rightly %d, at least %d are; left alone rightly %d, at least %d are", whole, c.whole, alone, c.alone)
			}
		})
	}
}

func TestStandaloneLeavesAlone(t *testing.T) {
	user := func(texts ...string) (out []schema.Turn) {
		for _, text := range texts {
			out = append(out, schema.Turn{Role: schema.RoleUser, Content: text})
		}
		return out
	}
	for _, c := range []struct {
		history  []schema.Turn
		question string
	}{
		{nil, "And in 2021?"},
		{user(""), "Does it apply to managers?"},
		{user("Hello"), "Why?"},
		{[]schema.Turn{{Role: schema.RoleAssistant, Content: "The notice period is three months."}}, "Does it apply to managers?"},
		{user("Wie lang ist die Kündigungsfrist?"), "Wie viel Urlaub gibt es im Jahr?"},
		{user("What is the notice period?"), ""},
		{user("What is the notice period?"), "?!"},
		{user("What is the notice period?"), "travel expenses abroad"},
		{user("What is the notice period?"), strings.Repeat("it ", 100)},
		{user(strings.Repeat("Does it ", 2500) + "?"), "Why?"},
	} {
		if got, changed := Standalone(c.history, c.question); changed || got != c.question {
			t.Errorf("%.60q after %.60q becomes %.80q", c.question, c.history, got)
		}
	}
}

func FuzzStandalone(f *testing.F) {
	for _, file := range []string{"testdata/dialogues.txt", "testdata/heldout.txt"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		for i := 2; i < len(lines); i++ {
			f.Add(lines[i-2], lines[i-1], lines[i])
		}
	}
	f.Fuzz(func(t *testing.T, asked, said, question string) {
		history := []schema.Turn{{Role: schema.RoleUser, Content: asked}, {Role: schema.RoleAssistant, Content: said}}
		got, changed := Standalone(history, question)
		if changed != (got != question) {
			t.Errorf("%q becomes %q, changed %v", question, got, changed)
		}
		if _, again := Standalone(nil, got); again {
			t.Errorf("%q is changed without a history", got)
		}
	})
}
