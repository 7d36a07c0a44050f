package modelpack

import (
	"strings"
	"testing"
)

func TestPromptsAreReadFromTheModel(t *testing.T) {
	const file = promptsFile
	prompts := func(text string) func(string) { return put(t, file, text) }
	for name, c := range map[string]struct {
		addition Addition
		want     promptsSection
	}{
		"none":              {Addition{From: models + "/hf-bert"}, promptsSection{}},
		"query and passage": {Addition{From: models + "/hf-xlm-roberta"}, promptsSection{"query: ", "passage: "}},
		"overridden":        {Addition{From: models + "/hf-xlm-roberta", QueryPrompt: "q: "}, promptsSection{"q: ", "passage: "}},
		"by hand":           {Addition{From: models + "/hf-bert", PassagePrompt: "p: "}, promptsSection{"", "p: "}},
		"document":          {Addition{From: models + "/hf-nomic"}, promptsSection{"search_query: ", "search_document: "}},
		"document first": {Addition{From: altered(t, "hf-bert", prompts(`{"prompts": {"corpus": "c", "passage": "p", "document": "d"}}`))},
			promptsSection{"", "d"}},
		"by default": {Addition{From: altered(t, "hf-bert", prompts(`{"prompts": {"query": "q", "common": "c"}, "default_prompt_name": "common"}`))},
			promptsSection{"q", "c"}},
		"empty ones": {Addition{From: altered(t, "hf-bert", prompts(`{"prompts": {"query": "", "document": ""}, "default_prompt_name": null}`))}, promptsSection{}},
	} {
		dir, added := add(t, c.addition)
		got := manifestOf(t, dir).Encoder.Prompts
		if got == nil {
			got = &promptsSection{}
		} else if len(added.Notes) == 0 || !strings.Contains(strings.Join(added.Notes, " "), "in front") {
			t.Errorf("%s: notes %q", name, added.Notes)
		}
		if *got != c.want {
			t.Errorf("%s: %q, want %q", name, *got, c.want)
		}
	}
}

func TestOtherPromptsAreOtherSpaces(t *testing.T) {
	plain, _ := add(t, Addition{From: models + "/hf-bert"})
	prompted, _ := add(t, Addition{From: models + "/hf-bert", QueryPrompt: "q: "})
	if a, b := manifestOf(t, plain).Space, manifestOf(t, prompted).Space; a == b || a == "" {
		t.Errorf("spaces %q and %q", a, b)
	}
}

func TestWrongPromptsAreNamed(t *testing.T) {
	for _, c := range []struct {
		addition Addition
		says     string
	}{
		{Addition{From: altered(t, "hf-bert", put(t, promptsFile, `{"default_prompt_name": "none"}`))}, "default_prompt_name"},
		{Addition{From: altered(t, "hf-bert", put(t, promptsFile, `{"prompts": []}`))}, promptsFile},
		{Addition{From: models + "/hf-roberta-pair", QueryPrompt: "q: "}, "cross-encoder"},
		{Addition{From: altered(t, "hf-xlm-roberta", put(t, "1_Pooling/config.json", `{"pooling_mode_mean_tokens": true, "include_prompt": false}`))}, "include_prompt"},
	} {
		o := Options{Dir: t.TempDir()}
		if _, err := Add(t.Context(), o, c.addition); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want an error with %s", err, c.says)
		}
		nothing(t, o.Dir)
	}
}
