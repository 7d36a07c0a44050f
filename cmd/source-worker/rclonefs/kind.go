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

// kind is one of rclone's backends, and what it is told.
type kind struct {
	name, summary string
	backend       string
	fields        []source.Field
	rootField     string // the setting that an absent folder is blamed on
	// tunnel is for a backend whose connections can be guarded by a tunnel alone, which ends them,
	// too.
	tunnel bool
	// unguarded is for a backend whose connections can't be guarded.
	unguarded bool
	// signsIn is for a backend that gets its first token when it is configured.
	signsIn bool
	// inexactSizes is for a place whose sizes aren't those of what it sends.
	inexactSizes bool
	page         int // how many items a page has at most; pageItems where it is zero
	target       func(values) (target, error)
	readers      func(*connector, values) (readers, error) // nil where nothing tells who may see what
}

// target is what a backend is told.
type target struct {
	options map[string]string
	root    string
	hosts   map[string]string // that are dialled, by the settings that they are from
}

// driver is the kind as sources see it.
func (k *kind) driver() source.Driver {
	return source.Driver{Name: k.name, Summary: k.summary, Fields: k.fields, Open: k.open}
}

// settings checks the values of the fields, and makes of them what the backend is told.
func (k *kind) settings(ctx context.Context, v values, keeper *guard.Guard) (target, error) {
	if err := setting.Check(k.fields, v); err != nil {
		return target{}, err
	}
	if k.unguarded && !keeper.AllowsAll() {
		return target{}, errors.New("rclone can't be kept from private addresses with " + k.name +
			": such a source can be read only where the operator allows private addresses")
	}
	made, err := k.target(v)
	if err != nil {
		return target{}, err
	}
	for field, host := range made.hosts {
		address, err := keeper.Resolve(ctx, host)
		if err != nil && (errors.Is(err, guard.ErrPrivate) || ctx.Err() == nil) {
			return target{}, &source.FieldError{Field: field, Reason: err.Error()}
		}
		if err != nil {
			return target{}, err
		}
		// A backend that dials by itself is given the address, so that its name can't change its
		// mind.
		if _, dials := made.options["host"]; dials && !keeper.AllowsAll() && !k.tunnel {
			made.options["host"] = address.String()
		}
	}
	return made, nil
}

// values are settings by their names.
type values map[string]string

// options takes the fields whose names are those of the backend's options, where they have values.
func (v values) options(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if v[name] != "" {
			out[name] = v[name]
		}
	}
	return out
}

// folder is the root of a backend, with its bucket or share before it.
func (v values) folder(parts ...string) string {
	return strings.Trim(path.Join(append(parts, v["path"])...), "/")
}

// hidden is a password in the form that rclone takes, which hides it from a look over the shoulder
// alone.
func hidden(field, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	out, err := obscure.Obscure(value)
	if err != nil {
		return "", &source.FieldError{Field: field, Reason: err.Error()}
	}
	return out, nil
}
