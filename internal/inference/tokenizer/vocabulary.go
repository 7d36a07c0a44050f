package tokenizer

// This file makes a tokenizer.json from the two files of older BERT tokenizers: vocab.txt, with one
// piece per line, and tokenizer_config.json.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// config is the part of a tokenizer_config.json that is used, with the defaults of Hugging Face's
// BertTokenizer.
type config struct {
	DoLowerCase          *bool  `json:"do_lower_case"`
	StripAccents         *bool  `json:"strip_accents"`
	TokenizeChineseChars *bool  `json:"tokenize_chinese_chars"`
	DoBasicTokenize      *bool  `json:"do_basic_tokenize"`
	TokenizerClass       string `json:"tokenizer_class"`
	Unknown              token  `json:"unk_token"`
	Pad                  token  `json:"pad_token"`
	Cls                  token  `json:"cls_token"`
	Sep                  token  `json:"sep_token"`
	Mask                 token  `json:"mask_token"`
}

// token is written as a string, or as an object with a content.
type token string

// UnmarshalJSON implements json.Unmarshaler.
func (t *token) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("{")) {
		var object struct{ Content string }
		if err := json.Unmarshal(data, &object); err != nil {
			return err
		}
		*t = token(object.Content)
		return nil
	}
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text != nil {
		*t = token(*text)
	}
	return nil
}

func (t token) or(fallback string) string {
	if t == "" {
		return fallback
	}
	return string(t)
}

// FromVocabulary makes a tokenizer.json from a vocab.txt and a tokenizer_config.json, which may be
// empty. Errors name the field that is not supported.
func FromVocabulary(vocabulary, configuration []byte) ([]byte, error) {
	var c config
	if len(configuration) > 0 {
		if err := json.Unmarshal(configuration, &c); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if err := checkClass(c.TokenizerClass); err != nil {
		return nil, err
	}
	if !or(c.DoBasicTokenize, true) {
		return nil, fmt.Errorf("tokenizer_config.json: do_basic_tokenize: must be true")
	}
	pieces := map[string]int32{}
	lines := strings.Split(strings.ReplaceAll(string(vocabulary), "\r\n", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for id, piece := range lines {
		pieces[piece] = int32(id)
	}
	special := func(name string) any { return map[string]any{"SpecialToken": map[string]any{"id": name, "type_id": 0}} }
	second := func(kind, name string) any { return map[string]any{kind: map[string]any{"id": name, "type_id": 1}} }
	cls, sep := c.Cls.or("[CLS]"), c.Sep.or("[SEP]")
	single := []any{special(cls), map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, special(sep)}
	specials := map[string]any{}
	for _, name := range []string{cls, sep} {
		id, ok := pieces[name]
		if !ok {
			return nil, fmt.Errorf("vocab.txt: has no line %q; tokenizer_config.json names other special tokens in cls_token and sep_token", name)
		}
		specials[name] = map[string]any{"id": name, "ids": []int32{id}, "tokens": []string{name}}
	}
	return json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{},
		"normalizer": map[string]any{
			"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": or(c.TokenizeChineseChars, true),
			"strip_accents": c.StripAccents, "lowercase": or(c.DoLowerCase, true),
		},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{
			"type": "TemplateProcessing", "single": single, "special_tokens": specials,
			"pair": append(append([]any{}, single...), second("Sequence", "B"), second("SpecialToken", sep)),
		},
		"decoder": map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": map[string]any{
			"type": "WordPiece", "unk_token": c.Unknown.or("[UNK]"), "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": pieces,
		},
	})
}

// checkClass returns an error for the tokenizers of other families.
func checkClass(class string) error {
	switch strings.TrimSuffix(class, "Fast") {
	case "", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer", "PreTrainedTokenizer", "TokenizersBackend":
		return nil
	}
	return fmt.Errorf("tokenizer_config.json: tokenizer_class: %s with a vocab.txt is not supported, only BERT's WordPiece; "+
		"export the model with its tokenizer.json", class)
}

// Agrees returns an error where a tokenizer_config.json contradicts a tokenizer.json: Hugging
// Face's own loaders disagree on which takes precedence.
func Agrees(file, configuration []byte) error {
	var c config
	if err := json.Unmarshal(configuration, &c); err != nil {
		return fmt.Errorf("tokenizer_config.json: %w", err)
	}
	t, err := Parse(file)
	if err != nil {
		return fmt.Errorf("tokenizer.json: %w", err)
	}
	if t.pipeline != nil {
		return nil // those fields apply to BERT's normalizer
	}
	for _, field := range []struct {
		names string
		says  *bool
		has   bool
	}{
		{"lowercase and do_lower_case", c.DoLowerCase, t.normalizer.lower},
		{"strip_accents and strip_accents", c.StripAccents, t.normalizer.strip},
		{"handle_chinese_chars and tokenize_chinese_chars", c.TokenizeChineseChars, t.normalizer.chinese},
	} {
		if field.says != nil && *field.says != field.has {
			return fmt.Errorf("tokenizer.json and tokenizer_config.json disagree: normalizer's %s are %v and %v; correct the one that is wrong",
				field.names, field.has, *field.says)
		}
	}
	return nil
}

// PadToken returns the token that pads short rows: the pad_token of a tokenizer_config.json, or
// else the padding token of a tokenizer.json, or else [PAD].
func PadToken(file, configuration []byte) (string, error) {
	var c config
	if len(configuration) > 0 {
		if err := json.Unmarshal(configuration, &c); err != nil {
			return "", fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	var f struct {
		Padding *struct {
			Token string `json:"pad_token"`
		}
	}
	if err := json.Unmarshal(file, &f); err != nil {
		return "", fmt.Errorf("tokenizer.json: %w", err)
	}
	if c.Pad == "" && f.Padding != nil {
		c.Pad = token(f.Padding.Token)
	}
	return c.Pad.or("[PAD]"), nil
}

// Lowercases reports whether upper and lower case have the same ids.
func (t *Tokenizer) Lowercases() bool {
	if t.pipeline != nil {
		return t.pipeline.lowers
	}
	return t.normalizer.lower
}
