package stage

// The stage "spell": corrects words of the question that no document has and that differ by one
// edit from a word that documents have.

import (
	"context"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

type spell struct{ least int }

// maxSectionCount is up to how many the sections with a possible term are counted.
const maxSectionCount = 10_000

// maxMisspelt is the most words that are corrected: each has some hundred possible terms to look
// up.
const maxMisspelt = 3

var spellKind = Kind{
	Name:       "spell",
	Parameters: "`least` (5)",
	Does:       "first: takes words that no document which the asker may see has for those that they may be slips of, see below",
	read:       readSpell,
}

// readSpell reads the stage "spell":
//
//	spell: {least: 5}
//
// The stage comes before those that search. It corrects a term of the question that is in no
// section that the principal may see and that consists of letters, least or more of them. Of the
// terms that differ by one edit, it takes the one that most of these sections have. An edit is a
// letter left out, added, replaced, or swapped with the next one (Damerau 1964); the first letter
// can only be swapped. Lexical stages and proximity use the corrected terms; the models read the
// original question.
func readSpell(p *Parameters) Stage {
	s := spell{least: p.Int("least", 5, 3, 64)}
	return Stage{Fit: s.fit, run: s.run}
}

func (spell) fit(in schema.Unit) (schema.Unit, error) {
	if in != "" {
		return "", schema.Invalid("", "must come before the stages that search")
	}
	return "", nil
}

func (s spell) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, why: "every word is known, short, or a number"}
	if err := t.analyse(); err != nil {
		return outcome{}, err
	}
	if len(t.terms) == 0 {
		out.why = "the question has no word to search for"
		return out, nil
	}
	r, err := t.searchIndex(ctx, t.statisticsOf(t.terms))
	if err != nil {
		return outcome{}, fmt.Errorf("look the question's terms up: %w", err)
	}
	t.statistics = &r.Statistics
	seen, err := t.index.Counts(t.statisticsOf(t.terms), 1)
	if err != nil {
		return outcome{}, fmt.Errorf("look the question's terms up: %w", err)
	}
	var unknown []string
	for _, term := range t.terms {
		if seen[term] == 0 && s.mayBeMisspelt(term) && !slices.Contains(unknown, term) && len(unknown) < maxMisspelt {
			unknown = append(unknown, term)
		}
	}
	if len(unknown) == 0 {
		return out, nil
	}
	corrections, err := t.corrections(ctx, unknown)
	if err != nil {
		return outcome{}, err
	}
	out.why = fmt.Sprintf("%d words are in no document; %d are taken for others", len(unknown), len(corrections))
	if len(corrections) == 0 {
		return out, nil
	}
	out.statistics = map[string]float64{}
	for i, term := range t.terms {
		if m, ok := corrections[term]; ok {
			t.terms[i] = m.term
			out.statistics[term+" as "+m.term] = float64(m.df)
		}
	}
	t.index, t.statistics = nil, nil // they were opened for the original terms
	return out, nil
}

// statisticsOf returns a query for how many sections have each term.
func (t *Task) statisticsOf(terms []string) lexical.TermQuery {
	return t.narrowed(lexical.TermQuery{Unit: schema.UnitSection, Terms: terms, K: 1, Settings: lexical.Defaults})
}

// mayBeMisspelt reports whether a term may be a misspelt word. Numbers and names of settings are
// not.
func (s spell) mayBeMisspelt(term string) bool {
	if utf8.RuneCountInString(term) < s.least {
		return false
	}
	for _, c := range term {
		if alphabetOf(c) == nil {
			return false
		}
	}
	return true
}

// correction is a term of the collection, and how many sections have it.
type correction struct {
	term string
	df   int
}

// corrections returns for each term the most frequent term that differs by one edit.
func (t *Task) corrections(ctx context.Context, terms []string) (map[string]correction, error) {
	edits := map[string][]string{}
	var all []string
	for _, term := range terms {
		edits[term] = edits1(term)
		all = append(all, edits[term]...)
	}
	q := t.statisticsOf(all)
	index, err := t.open(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("look up corrections: %w", err)
	}
	counts, err := index.Counts(q, maxSectionCount)
	if err != nil {
		return nil, fmt.Errorf("look up corrections: %w", err)
	}
	out := map[string]correction{}
	for _, term := range terms {
		for _, edit := range edits[term] {
			if df := counts[edit]; df > out[term].df {
				out[term] = correction{edit, df}
			}
		}
		if out[term].df == 0 {
			delete(out, term)
		}
	}
	return out, nil
}

// alphabets are the scripts in which a letter can be replaced by another one.
var alphabets = []struct {
	table   *unicode.RangeTable
	letters []rune
}{
	{unicode.Latin, []rune("abcdefghijklmnopqrstuvwxyz")},
	{unicode.Cyrillic, []rune("абвгдежзийклмнопрстуфхцчшщъыьэюя")},
	{unicode.Greek, []rune("αβγδεζηθικλμνξοπρσςτυφχψω")},
}

// alphabetOf returns the letters of a letter's script; nil for any other character.
func alphabetOf(c rune) []rune {
	for _, a := range alphabets {
		if unicode.Is(a.table, c) && unicode.IsLetter(c) {
			return a.letters
		}
	}
	return nil
}

// edits1 returns the words that differ from term by one edit, each once, in a fixed order.
func edits1(term string) []string {
	word := []rune(term)
	letters := alphabetOf(word[0])
	seen := map[string]bool{term: true}
	var out []string
	add := func(parts ...[]rune) {
		var edit []rune
		for _, p := range parts {
			edit = append(edit, p...)
		}
		if s := string(edit); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for i := range word {
		if i+1 < len(word) {
			add(word[:i], []rune{word[i+1], word[i]}, word[i+2:])
		}
		if i > 0 {
			add(word[:i], word[i+1:])
			for _, c := range letters {
				add(word[:i], []rune{c}, word[i+1:])
				add(word[:i], []rune{c}, word[i:])
			}
		}
	}
	for _, c := range letters {
		add(word, []rune{c})
	}
	return out
}
