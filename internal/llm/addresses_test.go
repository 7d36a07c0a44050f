package llm_test

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema/wire"
)

// textOf returns the text of the gateway's reply when a model answers text from passages.
func textOf(t *testing.T, text string, r wire.LLMRequest) string {
	t.Helper()
	c := llm.Completion{Text: text, Quotes: []wire.Quote{{End: 9}}}
	reply := gateway(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: c}}}).Complete(t.Context(), r)
	if reply.Error != nil {
		t.Fatalf("%q: %v", text, reply.Error)
	}
	return reply.Text
}

var hostsKnown = []wire.LLMPassage{{Title: "The guide.md of acme.com", Location: "docs/setup.sh", Text: "Forms are at docs.acme.com and https://forms.acme.com/new?a=1, or 10.1.2.3:8080/x. " +
	"Write to help@acme.com, see report.pdf, notes.md, user.name, ASP.NET and www.acme.org/a."}}

func TestAnswersHaveNoBareHostsOfTheirOwn(t *testing.T) {
	for _, address := range []string{
		"SECRET.evil.com", "secret.EVIL.COM", "evil.com", "Evil.com", "EVIL.COM", "evil.co.uk", "evil.com:8080", "evil.com:8080/SECRET", "evil.com?x=SECRET", "evil.com#SECRET",
		"evil.com/SECRET", "evil.com./SECRET", `evil.com\SECRET`, "1.2.3.4/SECRET", "1.2.3.4:8080", "1.2.3.4:8080/SECRET", "1.2.3.4?x=SECRET", "1.2.3.4#SECRET", "user@1.2.3.4",
		"xn--80ak6aa92e.com", "SECRET.xn--p1ai", "SECRET.xn--e1awd7f.com/x", "секрет.рф", "SECRET.münchen.de", "SECRET.evil.Com",
		"WWW.evil.example", "wWw.SECRET.example", "www.evil", "SECRET_1.evil.com", "-secret.evil.com", "SECRET@evil.com", "evil.com/", "SECRET.evil.zip", "SECRET.evil.md", "evil.md/SECRET", "evil.py?SECRET",
		`SECRET.evil\.com`, "SECRET&#46;evil&#46;com", "SECRET&#x2e;evil&period;com", "SECRET.evil。com", "SECRET．evil．com", "evil.ck", "a.b.evil.io", "evil.technology", "e.v.i.l.com",
		// The passages have similar addresses.
		"x.docs.acme.com", "docs.acme.com.evil.com", "docs.acme.com/SECRET", "docs.acme.com:81", "forms.acme.com/new?a=1&b=SECRET", "10.1.2.3:8080/x/SECRET", "SECRET@acme.com", "acme.org/SECRET",
		"evildocs.acme.com",
	} {
		for _, around := range []string{"See %s now.", "See %s.", "(%s)", "See “%s”, please.", "**%s**", "See\n%s\nnow.", "- %s"} {
			text := strings.Replace(around, "%s", address, 1)
			want := strings.Replace(around, "%s", llm.LinkRemoved, 1)
			got := textOf(t, text, request(hostsKnown))
			// The remainder of an address is not an address.
			if got = strings.Replace(got, llm.LinkRemoved+"/", llm.LinkRemoved, 1); got != want {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
		}
	}
	for text, want := range map[string]string{
		"See [the forms](evil.com?x=SECRET) there.":      "See the forms ([link removed]) there.",
		"See [the forms](SECRET.evil.com) there.":        "See the forms ([link removed]) there.",
		"See [](1.2.3.4/SECRET) there.":                  "See [link removed] there.",
		"See [evil.com](evil.com) and <SECRET.evil.com>": "See [link removed] and <[link removed]>",
		"Five. ![x](evil.com/p.png?SECRET)":              "Five.",
		"See [the guide](guide.md) there.":               "See the guide (guide.md) there.",
		"See [the forms](docs.acme.com) there.":          "See the forms (docs.acme.com) there.",
	} {
		if got := textOf(t, text, request(hostsKnown)); got != want && strings.ReplaceAll(want, " (guide.md)", "") != got {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestOrdinaryTextWithPointsStays(t *testing.T) {
	for _, text := range []string{
		"It is made e.g. of tin, i.e. cheap, in the U.S. and the U.S.A. at 5 p.m. or 5.30 a.m.", "z.B. u.a. d.h. vgl. Abs. 3.2.1", "Use Node.js 20.1, version v1.2.3 or 1.2.3.4.",
		"Clause 7.1.2.3 says so; 7.1.2.3: five days.", "The network is 10.0.0.0/8 and 192.168.1.0/24.", "It costs 3.5/4 or $1.50; 1,000.50 in all...", "The door is shut.The light is off.In 2020.It was on.",
		"It closes at 5.No more.", "It is Co.Ltd, M.Sc. and Dr.No of St.Gallen.", "Ph.D. Smith vs. Jones et al. (2020).", "Open report.pdf, main.go, index.html, data.csv and package.json.",
		"Open README.md, setup.sh, main.rs:x, run.py, old.zip and Foo.cc.", "Call fmt.Println, console.log(x) or os.path.join.", "See docs.acme.com, acme.com and forms.acme.com.",
		"See https://forms.acme.com/new?a=1 or 10.1.2.3:8080/x.", "Write to help@acme.com.", "Set user.name; ASP.NET is at www.acme.org/a.", "这是很好。公司在这里。谢谢。", "これは。です。", "Wait...what? Yes!No.",
		"The file .gitignore, ~/.ssh and ../a are there.", "and/or, 24/7, w/o, TCP/IP", "A sentence. Another: one; two.", "Mr.Smith met Mrs.Jones.", "Σ.Α. και ό.τι", "The ratio is 1:2.5, at 12.30:45.",
		"a.b.c of x.y", "The 1.2.3.4", "He said \"no.\" It ended.", "C.I.A. and F.B.I. files", "Punkt.Danach geht es weiter.", "Rs.500 No.5 p.12 pp.3-4 fig.2 Art.5",
	} {
		if got := textOf(t, text, request(hostsKnown)); got != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, got)
		}
	}
	// An answer may repeat the asker's own addresses.
	r := request(works)
	r.Question = "Who runs evil.com and https://other.com/x?"
	if text := "Nobody runs evil.com, nor https://other.com/x."; textOf(t, text, r) != text {
		t.Errorf("of the asker's own words: %q", textOf(t, text, r))
	}
}
