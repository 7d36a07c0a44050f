package schema

import (
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// This file checks text and hashes from outside before they reach Postgres, which accepts neither
// U+0000 nor invalid UTF-8.

// CheckText returns an error for text that Postgres cannot store.
func CheckText(field, text string) error {
	if !utf8.ValidString(text) {
		return Invalid(field, "is not valid UTF-8")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return Invalid(field, "contains U+0000")
	}
	return nil
}

// CheckLength is CheckText that also checks that text has minimum to maximum bytes.
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

// CheckCharacters is CheckText that also checks that text has minimum to maximum characters.
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

// DecodeSHA256 decodes a hash in hexadecimal.
func DecodeSHA256(field, text string) ([]byte, error) {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != 32 {
		return nil, Invalid(field, "%q is not the hex of a SHA-256", text)
	}
	return sum, nil
}

var languageTag = regexp.MustCompile(`^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{1,8})*$`) // a part of BCP 47

// CheckLanguage checks that text has the form of a language tag.
func CheckLanguage(field, text string) error {
	if len(text) > MaxLanguage || !languageTag.MatchString(text) {
		return Invalid(field, "%q is not a language tag such as en or pt-BR", text)
	}
	return nil
}
