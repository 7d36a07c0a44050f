package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/schema"
)

// File is the settings file that every program reads from its working folder. SLUICE_CONFIG names
// another.
const File = "sluice.yaml"

// Resolver supplies a program's settings to kong.
type Resolver struct {
	// Args are the program's arguments without former settings.
	Args []string
	// Warnings has a warning for each former setting that is used.
	Warnings []string

	values map[string]string // of the file, and of variables with former names
}

// Read reads the settings file, with flag names and values (database-url: ...), and looks for
// former settings in it, in the environment and in args. It returns an error if a file named by
// SLUICE_CONFIG is missing, if the file is malformed, or if it has a setting that no program has.
func Read(args []string) (*Resolver, error) {
	s := &Resolver{values: map[string]string{}}
	path, named := os.LookupEnv("SLUICE_CONFIG")
	if !named {
		path = File
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
	case err != nil:
		return nil, fmt.Errorf("read settings: %w", err)
	default:
		if s.values, err = parse(path, data); err != nil {
			return nil, err
		}
	}
	s.retire(args)
	return s, nil
}

// Apply implements kong.Option.
func (s *Resolver) Apply(k *kong.Kong) error {
	return kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		value, ok := s.values[flag.Name]
		if !ok {
			return nil, nil
		}
		// kong asks resolvers before the environment, but the environment takes precedence.
		for _, env := range flag.Envs {
			if _, set := os.LookupEnv(env); set {
				return nil, nil
			}
		}
		return value, nil
	})).Apply(k)
}

func parse(path string, data []byte) (map[string]string, error) {
	var raw map[string]yaml.Node
	if err := yaml.Unmarshal(data, &raw); err != nil {
		return nil, schema.Invalid(path, "%v", err)
	}
	allowed := map[string]bool{}
	for _, name := range Known() {
		allowed[name] = true
	}
	for _, old := range gone {
		allowed[old.name] = true
	}
	values := map[string]string{}
	for name, node := range raw {
		key := strings.ReplaceAll(name, "_", "-")
		if !allowed[key] {
			return nil, schema.Invalid(path, "line %d: there is no setting %q", node.Line, name)
		}
		if node.Kind != yaml.ScalarNode {
			return nil, schema.Invalid(path, "line %d: %q takes one value", node.Line, name)
		}
		values[key] = node.Value
	}
	return values, nil
}

// Known returns the names of all settings that sluice.yaml may have.
func Known() []string {
	var names []string
	for _, group := range groups {
		flags, err := group.flags()
		if err != nil {
			panic(err) // a mistake in a tag
		}
		for _, flag := range flags {
			names = append(names, flag.Name)
		}
	}
	return names
}
