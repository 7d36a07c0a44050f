package api

import "github.com/sluice-rag/sluice/schema"

// NewSource creates a source.
type NewSource struct {
	Name       string            `json:"name" pattern:"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$" doc:"Letters, digits, dots, underscores and dashes, beginning with a letter or digit. It doesn't change."`
	Collection string            `json:"collection" minLength:"1" maxLength:"128" doc:"Name or id of the collection that its documents come to."`
	Driver     string            `json:"driver" minLength:"1" maxLength:"64" doc:"The kind of source; they are listed at /v1/source-drivers."`
	Settings   map[string]string `json:"settings,omitempty" doc:"Of the driver. Those that are secret are encrypted, and never shown."`
	Paused     bool              `json:"paused,omitempty" doc:"It does not run before it is resumed, so that a preview can be looked at first."`
	SourceRules
}

// SourceRules say which items of a source are followed, and when.
type SourceRules struct {
	Include    []string `json:"include,omitempty" maxItems:"100" doc:"Patterns of paths, of which an item matches one: * stands for a part of a name, ** for folders; one without a slash is for names in any folder. All items when absent."`
	Exclude    []string `json:"exclude,omitempty" maxItems:"100" doc:"Patterns of paths, of which an item matches none."`
	Labels     []string `json:"labels,omitempty" maxItems:"100" doc:"That its documents get; keys whose groups have none of them don't see them."`
	MaxBytes   int64    `json:"max_bytes,omitempty" minimum:"0" doc:"Largest item; 0: what the worker allows."`
	MaxItems   int64    `json:"max_items,omitempty" minimum:"0" doc:"Most items; 0: any number."`
	MaxShorter int      `json:"max_shorter,omitempty" minimum:"1" maximum:"100" default:"20" doc:"A complete listing shorter by so many per cent deletes nothing until somebody confirms it; 100: it never asks."`
	Every      *int     `json:"every,omitempty" minimum:"0" maximum:"527040" doc:"Minutes between two runs; 60 when absent, 0: it runs when somebody asks."`
}

// SourceChange changes a source; absent fields stay.
type SourceChange struct {
	Settings   map[string]string `json:"settings,omitempty" doc:"Those that change; an empty one is taken away."`
	Include    *[]string         `json:"include,omitempty" maxItems:"100"`
	Exclude    *[]string         `json:"exclude,omitempty" maxItems:"100"`
	Labels     *[]string         `json:"labels,omitempty" maxItems:"100"`
	MaxBytes   *int64            `json:"max_bytes,omitempty" minimum:"0"`
	MaxItems   *int64            `json:"max_items,omitempty" minimum:"0"`
	MaxShorter *int              `json:"max_shorter,omitempty" minimum:"1" maximum:"100"`
	Every      *int              `json:"every,omitempty" minimum:"0" maximum:"527040"`
}

// SourceConfirm confirms the deletion of the documents whose items are missing in the source.
type SourceConfirm struct {
	Run string `json:"run,omitempty" format:"uuid" doc:"The run that asks; the newest when absent."`
}

// SourceDrivers are the kinds of sources that source workers support.
type SourceDrivers struct {
	Items []schema.SourceDriver `json:"items"`
}

// NewAccessMapping maps a subject of the tenant to a principal of a source.
type NewAccessMapping struct {
	Principal string `json:"principal" minLength:"1" maxLength:"512" doc:"Its id in the source, as the list of principals has it."`
	schema.AccessSubject
}
