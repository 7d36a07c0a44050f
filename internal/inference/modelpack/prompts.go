package modelpack

// This file reads the prompts that an encoder needs in front of questions and passages.

import (
	"cmp"

	"github.com/sluice-rag/sluice/schema"
)

// promptsFile is where sentence-transformers keeps the prompts of a model.
const promptsFile = "config_sentence_transformers.json"

// passagePrompts are the names that sentence-transformers tries in turn to encode a document.
var passagePrompts = []string{"document", "passage", "corpus"}

// readPrompts reads the prompts of the model's own configuration; query and passage override them.
func (m *model) readPrompts(f files, query, passage string) error {
	if m.role != RoleEncoder {
		if query != "" || passage != "" {
			return schema.Invalid("prompt", "only encoders have prompts, this is a cross-encoder")
		}
		return nil
	}
	var c struct {
		Prompts map[string]string `json:"prompts"`
		Default string            `json:"default_prompt_name"`
	}
	if _, err := f.decode(promptsFile, &c); err != nil {
		return err
	}
	common := ""
	if c.Default != "" {
		var ok bool
		if common, ok = c.Prompts[c.Default]; !ok {
			return schema.Invalid(promptsFile, "default_prompt_name: there is no prompt %q", c.Default)
		}
	}
	named := func(names ...string) string {
		for _, name := range names {
			if text, ok := c.Prompts[name]; ok {
				return text
			}
		}
		return common
	}
	p := promptsSection{Query: cmp.Or(query, named("query")), Passage: cmp.Or(passage, named(passagePrompts...))}
	if p == (promptsSection{}) {
		return nil
	}
	if m.promptless && m.pooling == "mean" {
		return schema.Invalid("1_Pooling/config.json", "include_prompt: false is not supported: the mean is of all tokens, the prompt's too")
	}
	m.prompts = &p
	m.note("questions are read with %q in front, passages with %q", p.Query, p.Passage)
	return nil
}
