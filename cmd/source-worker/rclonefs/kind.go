package rclonefs

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/rclone/rclone/fs/config/obscure"

	"github.com/sluice-rag/sluice/cmd/source-worker/guard"
	"github.com/sluice-rag/sluice/cmd/source-worker/setting"
	"github.com/sluice-rag/sluice/internal/source"
)

// kind describes one of rclone's backends and its settings.
type kind struct {
	name, summary string
	backend       string
	fields        []source.Field
	rootField     string // the setting to name in the error if the folder does not exist
	// tunnel is set for a backend whose connections can only be guarded by a CONNECT proxy, which
	// also closes them.
	tunnel bool
	// unguarded is set for a backend whose connections can't be guarded.
	unguarded bool
	// signsIn is set for a backend that gets its first token when it is configured.
	signsIn bool
	// inexactSizes is set for a service whose listed sizes differ from those of the content.
	inexactSizes        bool
	page                int // maximum number of items on a page; 0: pageItems
	target              func(values) (target, error)
	newPermissionReader func(*connector, values) (permissionReader, error) // nil: permissions are not available
}

// target has the parameters of a backend.
type target struct {
	options map[string]string
	root    string
	hosts   map[string]string // host names to dial, by the setting that they come from
}

// driver returns the source driver of the kind.
func (k *kind) driver() source.Driver {
	return source.Driver{Name: k.name, Summary: k.summary, Fields: k.fields, Open: k.open}
}

// settings checks the values of the fields, and converts them to parameters of the backend.
func (k *kind) settings(ctx context.Context, v values, g *guard.Guard) (target, error) {
	if err := setting.Check(k.fields, v); err != nil {
		return target{}, err
	}
	if k.unguarded && !g.AllowsAll() {
		return target{}, errors.New("rclone can't be kept from private addresses with " + k.name +
			": such a source can be read only where the operator allows private addresses")
	}
	t, err := k.target(v)
	if err != nil {
		return target{}, err
	}
	for field, host := range t.hosts {
		address, err := g.Resolve(ctx, host)
		if err != nil && (errors.Is(err, guard.ErrPrivate) || ctx.Err() == nil) {
			return target{}, &source.FieldError{Field: field, Reason: err.Error()}
		}
		if err != nil {
			return target{}, err
		}
		// A backend that dials by itself gets the checked address, because the name may resolve to
		// another one later.
		if _, dials := t.options["host"]; dials && !g.AllowsAll() && !k.tunnel {
			t.options["host"] = address.String()
		}
	}
	return t, nil
}

// values are settings by their names.
type values map[string]string

// options returns the non-empty fields that have the same names as the backend's options.
func (v values) options(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if v[name] != "" {
			out[name] = v[name]
		}
	}
	return out
}

// folder returns the root of a backend: the path after its bucket or share.
func (v values) folder(parts ...string) string {
	return strings.Trim(path.Join(append(parts, v["path"])...), "/")
}

// obscurePassword obscures a password in the form that rclone takes. It only hides it from a
// glance.
func obscurePassword(field, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	out, err := obscure.Obscure(value)
	if err != nil {
		return "", &source.FieldError{Field: field, Reason: err.Error()}
	}
	return out, nil
}
