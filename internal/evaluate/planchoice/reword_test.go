package planchoice

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

func TestRewordedQuestionsLeaveTheWordsOfTheSentence(t *testing.T) {
	for _, x := range []struct{ question, subject, first string }{
		{"When was the five-axis machining centre handed over?", "the five-axis machining centre", "On what date was the centre given over?"},
		{"How long is the annual leave entitlement of new employees?", "the annual leave entitlement of new employees", "How long is the entitlement of new staff?"},
		{"Where is the Port Hallam warehouse located?", "the Port Hallam warehouse", "Where is the warehouse found?"},
		{"What is a membrane?", "a membrane", ""},
		{"Wie lang ist die jährliche Kündigungsfrist?", "die jährliche Kündigungsfrist", "Wie lang ist die Kündigungsfrist?"},
	} {
		got := rewordings(x.question, x.subject)
		if x.first == "" {
			if len(got) != 0 {
				t.Errorf("%q became %q", x.question, got)
			}
			continue
		}
		if len(got) == 0 || got[0] != x.first {
			t.Errorf("%q became %q, want %q first", x.question, got, x.first)
		}
		for _, other := range got {
			if other == x.question || !strings.HasSuffix(other, "?") {
				t.Errorf("%q became %q", x.question, other)
			}
		}
		if before, after := len(strings.Fields(x.question)), len(strings.Fields(got[0])); after > before+2 {
			t.Errorf("%q grew to %q", x.question, got[0])
		}
	}
}

func TestOverlapIsOfWordsThatSaySomething(t *testing.T) {
	for _, x := range []struct {
		question, text string
		want           float64
	}{
		{"When was the machine handed over?", "The machine was handed over in May.", 1},
		{"When was the device given over?", "The machine was handed over in May.", 1.0 / 3},
		{"What is the?", "x", 0},
	} {
		if got := evaluate.Overlap(x.question, x.text); got < x.want-0.01 || got > x.want+0.01 {
			t.Errorf("%q in %q: %v, want %v", x.question, x.text, got, x.want)
		}
	}
}
