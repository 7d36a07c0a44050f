package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-rag/sluice/internal/source"
)

const key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"

var fields = []source.Field{{Name: "user"}, {Name: "password", Secret: true}, {Name: "token", Secret: true}, {Name: "private_key", Secret: true}}

func values() map[string]string {
	token, err := json.Marshal(map[string]string{"access_token": "ya29.token", "token_type": "Bearer"})
	if err != nil {
		panic(err)
	}
	return map[string]string{"user": "reader", "password": "a/b c+d", "token": string(token), "private_key": key}
}

// failing returns an error from every method.
type failing struct{ err error }

func (l failing) List(context.Context, string) (source.Listing, error) {
	return source.Listing{}, l.err
}

func (l failing) Fetch(_ context.Context, item source.Item) (source.Download, error) {
	if item.ID == "" {
		return source.Download{}, l.err
	}
	return source.Download{Body: io.NopCloser(iotest.ErrReader(l.err))}, nil
}

func (l failing) Close() error { return l.err }

// failingWithPermissions also lists principals.
type failingWithPermissions struct{ failing }

func (l failingWithPermissions) Principals(context.Context, string) (source.PrincipalPage, error) {
	return source.PrincipalPage{}, l.err
}

func TestErrorsShowNoSecret(t *testing.T) {
	for _, shown := range []string{"a/b c+d", "a%2Fb+c%2Bd", "a%2Fb%20c+d", "cmVhZGVyOmEvYiBjK2Q=", "ya29.token", values()["token"],
		"MIIEvQIBADANBgkqhkiG9w0BAQEF", key, strings.ReplaceAll(key, "\n", `\n`)} {
		field := &source.FieldError{Field: "password", Reason: "not " + shown}
		for _, cause := range []error{errors.New("the server says " + shown), fmt.Errorf("%s: %w", shown, source.ErrRefused),
			&source.ItemError{Reason: shown}, field, fmt.Errorf("open: %w", field)} {
			d := source.Driver{Fields: fields, Open: func(_ context.Context, s source.Settings) (source.Connector, error) {
				if s.Roots != nil {
					return nil, cause
				}
				if s.Permissions {
					return failingWithPermissions{failing{cause}}, nil
				}
				return failing{cause}, nil
			}}
			var got []error
			_, err := RedactErrors(d).Open(t.Context(), source.Settings{Values: values(), Roots: []string{"fail"}})
			got = append(got, err)
			c, err := RedactErrors(d).Open(t.Context(), source.Settings{Values: values()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.List(t.Context(), "")
			got = append(got, err)
			_, err = c.Fetch(t.Context(), source.Item{})
			got = append(got, err)
			down, err := c.Fetch(t.Context(), source.Item{ID: "a"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(down.Body)
			got = append(got, err, c.Close())
			if _, ok := c.(source.Permissions); ok {
				t.Error("a connector tells who may see what, and the one behind it doesn't")
			}
			withPermissions, err := RedactErrors(d).Open(t.Context(), source.Settings{Values: values(), Permissions: true})
			if err != nil {
				t.Fatal(err)
			}
			_, err = withPermissions.(source.Permissions).Principals(t.Context(), "")
			got = append(got, err)
			for _, err := range got {
				check(t, shown, cause, err)
			}
		}
	}
}

// check checks that an error has the meaning of its cause, and that no form of it shows a secret.
func check(t *testing.T, shown string, cause, err error) {
	t.Helper()
	text := fmt.Sprintf("%v %+v %#v %s %q", err, err, err, err, err)
	var item *source.ItemError
	var field *source.FieldError
	if errors.As(err, &item) {
		text += item.Reason
	}
	if errors.As(err, &field) {
		text += field.Reason
	}
	if strings.Contains(text, shown) {
		t.Errorf("%q is in %s", shown, text)
	}
	var wasItem *source.ItemError
	var wasField *source.FieldError
	if errors.Is(err, source.ErrRefused) != errors.Is(cause, source.ErrRefused) ||
		(item != nil) != errors.As(cause, &wasItem) || (field != nil) != errors.As(cause, &wasField) {
		t.Errorf("%v was %v", err, cause)
	}
}

func TestOtherErrorsStayAsTheyAre(t *testing.T) {
	k := newRedactor(fields, values())
	if err := k.redact(io.ErrUnexpectedEOF); err != io.ErrUnexpectedEOF { //nolint:errorlint // the same error is wanted
		t.Errorf("an error without secrets becomes %v", err)
	}
	if k.redact(nil) != nil {
		t.Error("no error becomes one")
	}
}
