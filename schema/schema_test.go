package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/schema"
)

func TestParseFilter(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "[]",
		"a = b":                               "[{a = [b]}]",
		`year >= 2024 and "due date" < "x y"`: "[{year >= [2024]} {due date < [x y]}]",
		"region in (emea, \"north america\")": "[{region in [emea north america]}]",
		"a=b AND c<=3":                        "[{a = [b]} {c <= [3]}]",
		`a = "=" and b = ""`:                  "[{a = [=]} {b = []}]",
	} {
		f, err := schema.ParseFilter(text)
		if err != nil || fmt.Sprint(f) != want {
			t.Errorf("%q gave %v, %v; want %s", text, f, err, want)
		}
	}
	for _, text := range []string{"a", "a =", "a ~ b", "a in b", "a in (b", "a = b c = d", `a = "b`, "= b c", "a in ()", "a = b and"} {
		_, err := schema.ParseFilter(text)
		var field *schema.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "filter") {
			t.Errorf("%q gave %v, want an error on the filter", text, err)
		}
	}
	if _, err := schema.ParseFilter("year == 2024"); err == nil || !strings.Contains(err.Error(), `"==" is not an operator`) {
		t.Errorf("an operator of other languages gave %v", err)
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add(`a = "b\"c" and d in (e, f)`)
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := schema.ParseFilter(text)
		if err == nil && filter.Validate() != nil {
			t.Errorf("%q gave an invalid filter %v", text, filter)
		}
	})
}

func TestFingerprintIsOfContentAndAttributes(t *testing.T) {
	fingerprint := func(sum string, a schema.Attributes) string {
		t.Helper()
		f, err := schema.Fingerprint(sum, a)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	base := schema.Attributes{Title: "t", Labels: []string{"b", "a"}, Metadata: schema.Metadata{"k": 1, "j": "x"}}
	same := schema.Attributes{Title: "t", Labels: []string{"a", "b", "a"}, Metadata: schema.Metadata{"j": "x", "k": 1}}
	if fingerprint("s", base) != fingerprint("s", same) {
		t.Error("the order of labels or keys matters")
	}
	if fingerprint("s", schema.Attributes{}) != fingerprint("s", schema.Attributes{Labels: []string{}, Metadata: schema.Metadata{}}) {
		t.Error("none and empty differ")
	}
	for name, other := range map[string]string{
		"content":  fingerprint("r", base),
		"title":    fingerprint("s", schema.Attributes{Title: "u", Labels: base.Labels, Metadata: base.Metadata}),
		"labels":   fingerprint("s", schema.Attributes{Title: "t", Labels: []string{"a"}, Metadata: base.Metadata}),
		"metadata": fingerprint("s", schema.Attributes{Title: "t", Labels: base.Labels, Metadata: schema.Metadata{"k": 2, "j": "x"}}),
	} {
		if other == fingerprint("s", base) {
			t.Errorf("another %s gives the same fingerprint", name)
		}
	}
}

func TestErrorsSurviveTheWire(t *testing.T) {
	for _, sentinel := range []error{schema.ErrNotFound, schema.ErrConflict, schema.ErrInvalid, schema.ErrForbidden, schema.ErrOverloaded, schema.ErrTenantOverloaded,
		schema.ErrUnavailable, schema.ErrQuota, schema.ErrTooLarge, schema.ErrProvider} {
		sent := schema.ToRemote(fmt.Errorf("doing it: %w", sentinel))
		if !errors.Is(sent, sentinel) {
			t.Errorf("%v came out as %v", sentinel, sent.Code)
		}
		if again := schema.ToRemote(fmt.Errorf("asking: %w", sent)); again.Code != sent.Code {
			t.Errorf("%v lost its code on the second hop", sentinel)
		}
	}
	own := schema.ToRemote(schema.ToRemote(schema.ErrTenantOverloaded))
	if !errors.Is(own, schema.ErrOverloaded) || !errors.Is(own, schema.ErrTenantOverloaded) {
		t.Errorf("a tenant's overload came out as %+v", own)
	}
	// Programs older than ErrTenantOverloaded read only the code.
	if own.Code != schema.CodeOverloaded {
		t.Errorf("a tenant's overload has code %q, which older programs do not take for an overload", own.Code)
	}
	if errors.Is(schema.ToRemote(schema.ErrOverloaded), schema.ErrTenantOverloaded) {
		t.Error("an overload of all is one tenant's")
	}
	if failed := schema.ToRemote(schema.ErrProvider); failed.Code != schema.CodeInternal {
		t.Errorf("a language model's failure has code %q, which older programs do not know", failed.Code)
	}
	if e := schema.ToRemote(schema.Invalid("k", "is negative")); e.Field != "k" || !errors.Is(e, schema.ErrInvalid) {
		t.Errorf("a field error came out as %+v", e)
	}
	if schema.ToRemote(errors.New("x")).Code != schema.CodeInternal {
		t.Error("an unknown error has a code of its own")
	}
}

func TestNewIDsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := schema.NewID()
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			id := schema.NewID()
			if strings.Compare(id.String(), last.String()) <= 0 {
				t.Fatalf("%s after %s", id, last)
			}
			last = id
		}
	})
}
