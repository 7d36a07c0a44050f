// Package setting checks the settings of drivers.
package setting

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/source"
)

// Check returns a *source.FieldError if a required value is missing, a value isn't allowed, or a
// field is unknown.
func Check(fields []source.Field, values map[string]string) error {
	known := map[string]bool{}
	for _, f := range fields {
		known[f.Name] = true
		value := values[f.Name]
		switch {
		case value == "" && f.Required:
			return &source.FieldError{Field: f.Name, Reason: "needed"}
		case value != "" && len(f.Values) > 0 && !slices.Contains(f.Values, value):
			return &source.FieldError{Field: f.Name, Reason: fmt.Sprintf("%q is none of %s", value, strings.Join(f.Values, ", "))}
		case strings.ContainsRune(value, 0):
			return &source.FieldError{Field: f.Name, Reason: "it has a zero byte"}
		}
	}
	for name := range values {
		if !known[name] {
			return &source.FieldError{Field: name, Reason: "there is no such setting; there are " + names(fields)}
		}
	}
	return nil
}

func names(fields []source.Field) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}

// HTTP parses the address of a web server.
func HTTP(field, value string) (*url.URL, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "":
		return nil, &source.FieldError{Field: field, Reason: fmt.Sprintf("%q is not an address such as https://files.example.org/folder", value)}
	case u.User != nil:
		return nil, &source.FieldError{Field: field, Reason: "user and password have settings of their own"}
	}
	return u, nil
}

// Number parses a whole number between two bounds. An empty value means the default.
func Number(field, value string, minimum, maximum, fallback int) (int, error) {
	if value == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < minimum || n > maximum {
		return 0, &source.FieldError{Field: field, Reason: fmt.Sprintf("%q is not a number from %d to %d", value, minimum, maximum)}
	}
	return n, nil
}
