package text_test

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
)

func TestCounterpart(t *testing.T) {
	const newer = "Payment.\n\n4.2 Either party may end this agreement with a notice of 90 days in writing. The monthly fee is EUR 650, payable in advance. " +
		"The supplier keeps all records for ten years."
	for sentence, want := range map[string]struct {
		found string
		same  bool
	}{
		"Either party may end this agreement with a notice of 60 days in writing.": {"4.2 Either party may end this agreement with a notice of 90 days in writing.", false},
		"The monthly fee is EUR 500, payable in advance.":                          {"The monthly fee is EUR 650, payable in advance.", false},
		"5. The supplier keeps all records, for TEN years":                         {"The supplier keeps all records for ten years.", true},
		"The customer names a contact person for all questions.":                   {"", false},
		"": {"", false},
	} {
		found, same := text.Counterpart(sentence, newer)
		if found != want.found || same != want.same {
			t.Errorf("%q: %q, %t; want %q, %t", sentence, found, same, want.found, want.same)
		}
	}
}

func TestPairs(t *testing.T) {
	long := text.PairsOf("The fee is 500 euro. It is due on the first of May, and the customer pays by transfer.")
	short := text.PairsOf("the FEE is 650 euro")
	if x := short.Containment(long); x != 1 {
		t.Errorf("a part with another figure: %g", x)
	}
	if x := short.Similarity(long); x > 0.4 {
		t.Errorf("a part is not all: %g", x)
	}
	if x := text.PairsOf("合同期限为三年").Containment(text.PairsOf("合同期限为五年，自签字之日起。")); x < 0.6 || x == 1 {
		t.Errorf("Chinese: %g", x)
	}
	if x := text.PairsOf("").Containment(long); x != 0 {
		t.Errorf("an empty text: %g", x)
	}
}
