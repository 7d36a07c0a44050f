package llm_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestAnswersHaveNoLinksOfTheirOwn(t *testing.T) {
	passages := []wire.LLMPassage{
		{Text: "Forms are at https://intranet.example/forms. Ask www.help.example/a?b=1 or it@acme.example."},
		{Text: "Other forms are at https://other.example/x."},
	}
	for input, want := range map[string]string{
		"Forms are at https://intranet.example/forms.":                               "Forms are at https://intranet.example/forms.",
		"See [the forms](https://intranet.example/forms) there.":                     "See the forms (https://intranet.example/forms) there.",
		"See https://intranet.example/forms?q=secret there.":                         "See [link removed] there.",
		"See https://intranet.example/for there.":                                    "See [link removed] there.",
		"See HTTPS://evil.example/x, now.":                                           "See [link removed], now.",
		"See https://other.example/x.":                                               "See [link removed].",
		"See evil.example/path and //evil.example/p now.":                            "See [link removed] and [link removed] now.",
		"Run javascript:alert(1) or data:text/html;base64,AAAA now.":                 "Run [link removed]) or [link removed] now.",
		"Five. ![x](https://evil.example/p.png?q=1)":                                 "Five.",
		"Five. ![x][y]\n\n[y]: https://evil.example/p.png":                           "Five.",
		"Five.<img src=x onerror=alert(1)><b onclick='x()'>b</b> <!-- hidden -->":    "Five.b</b>",
		"Five.<script>steal()</script> <SVG onload=x>y</SVG> <iframe src='https://e": "Five.",
		"a < b and c > d; use <b> or List<String> at 3.5/4 and and/or.":              "a < b and c > d; use <b> or List<String> at 3.5/4 and and/or.",
		"Z\u200bero \u202edrawkcab\u202c \U000e0041tag\u00ad e\u2060nd":              "Zero drawkcab tag end",
		"می\u200cخواهم 👩\u200d👩\u200d👧":                                              "می\u200cخواهم 👩\u200d👩\u200d👧",
	} {
		c := llm.Completion{Text: input, Quotes: []wire.Quote{{End: 9}}}
		reply := gateway(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: c}}}).Complete(t.Context(), request(passages))
		if reply.Error != nil || reply.Text != want {
			t.Errorf("%q became %q, want %q", input, reply.Text, want)
		}
	}
}

// TestAnswersAreCleanedWhateverTheyHold: cleaning long hostile text does not take long.
func TestAnswersAreCleanedWhateverTheyHold(t *testing.T) {
	for _, input := range []string{strings.Repeat("![", 5_000), strings.Repeat("[a](", 5_000), strings.Repeat("<a ", 5_000), strings.Repeat("<!--", 5_000), strings.Repeat("【", 5_000),
		strings.Repeat("https://a.example/", 2_000)} {
		c := llm.Completion{Text: "Five. " + input, Quotes: []wire.Quote{{End: 9}}}
		if reply := gateway(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: c}}}).Complete(t.Context(), request(works)); reply.Error != nil {
			t.Error(reply.Error)
		}
		replyTo(t, request(works), `{"answer":"`+input+`","citations":[{"passage":1,"quote":"Head bolts"}]}`)
	}
}
