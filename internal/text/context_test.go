package text_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
)

func TestInContext(t *testing.T) {
	for _, c := range []struct {
		title    string
		headings []string
		passage  string
		want     string
	}{
		{"Handbook", []string{"Leave", "Carry over"}, " Five days.\n", "Handbook\nCarry over\nFive days."},
		{"", nil, "Five days.", "Five days."},
		{"Leave", []string{"Leave"}, "Five days.", "Leave\nFive days."},
		{"Leave", []string{"Carry over"}, "Carry over\n\nFive days.", "Leave\nCarry over\n\nFive days."},
		{" The\nHand book\x00 ", nil, "Five days.", "The Hand book\nFive days."},
		{"Größe", nil, "\u00a0Zwölf Meter.", "Größe\nZwölf Meter."},
		{"Leave", nil, " \n ", "Leave\n"},
	} {
		got, start := text.InContext(c.title, c.headings, c.passage)
		if got != c.want || got[start:] != strings.TrimSpace(c.passage) {
			t.Errorf("InContext(%q, %q, %q) = %q, %d, want %q", c.title, c.headings, c.passage, got, start, c.want)
		}
	}
}
