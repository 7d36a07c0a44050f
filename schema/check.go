package schema

import (
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// This file checks text and hashes from outside before it reaches Postgres, which takes
// neither U+0000 nor invalid UTF-8.

// CheckText refuses text that Postgres cannot hold.
func CheckText(field, text string) error {
	if !utf8.ValidString(text) {
		return Invalid(field, "is not valid UTF-8")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return Invalid(field, "contains U+0000")
	}
	return nil
}

// CheckLength checks text and that it has min to max bytes.
func CheckLength(field, text string, minimum, maximum int) error {
	if err := CheckText(field, text); err != nil {
		return err
	}
	if len(text) < minimum {
		return Invalid(field, "is missing")
	}
	if len(text) > maximum {
		return Invalid(field, "has %d bytes; at most %d are allowed", len(text), maximum)
	}
	return nil
}

// CheckCharacters checks text and that it has min to max characters.
func CheckCharacters(field, text string, minimum, maximum int) error {
	if err := CheckText(field, text); err != nil {
		return err
	}
	switch n := utf8.RuneCountInString(text); {
	case n < minimum:
		return Invalid(field, "is missing")
	case n > maximum:
		return Invalid(field, "has %d characters; at most %d are allowed", n, maximum)
	}
	return nil
}

// DecodeSHA256 reads a hash in hexadecimal.
func DecodeSHA256(field, text string) ([]byte, error) {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != 32 {
		return nil, Invalid(field, "%q is not the hex of a SHA-256", text)
	}
	return sum, nil
}

var languageTag = regexp.MustCompile(`^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{1,8})*$`) // BCP 47, in part

// CheckLanguage checks that text looks like a language tag.
func CheckLanguage(field, text string) error {
	if len(text) > MaxLanguage || !languageTag.MatchString(text) {
		return Invalid(field, "%q is not a language tag such as en or pt-BR", text)
	}
	return nil
}
