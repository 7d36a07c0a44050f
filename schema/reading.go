package schema

import "github.com/google/uuid"

// TextQuery asks for the text of a document.
type TextQuery struct {
	Version uuid.UUID // zero: the live one
	Section uuid.UUID // zero: all of them
	PageQuery
}

// PlaceQuery selects bytes of a section's text. End 0 is the end of the section.
type PlaceQuery struct {
	Version uuid.UUID // zero: the live one
	Section uuid.UUID
	Start   int
	End     int
}

// Place is where a text is in its document. Boxes are missing if they are not known: the format has
// no pages, or the document was parsed before Sluice stored them.
type Place struct {
	Location string `json:"location"`
	Page     int    `json:"page,omitempty" doc:"Of its beginning, from 1; absent where the format has no pages."`
	Boxes    []Box  `json:"boxes" doc:"A box for each stretch of a line, in reading order."`
}

// DocumentSection is a section of a document with its passages.
type DocumentSection struct {
	Version uuid.UUID `json:"version_id"`
	Section
	Location string            `json:"location"` // of its beginning, for people
	Cluster  *uuid.UUID        `json:"cluster_id,omitempty"`
	Passages []DocumentPassage `json:"passages"` // they tile the text
}

// DocumentPassage is a passage of a section, with its links to other passages of the document.
type DocumentPassage struct {
	Ordinal int           `json:"ordinal"`
	Start   int           `json:"start"` // bytes in the section's text
	End     int           `json:"end"`
	Tokens  int           `json:"tokens"`
	Links   []PassageLink `json:"links,omitempty"` // strongest first
}

// PassageLink is a link to a passage of the same version, by ordinals.
type PassageLink struct {
	Section int     `json:"section"`
	Passage int     `json:"passage"`
	Weight  float64 `json:"weight"` // attention, in [0, 1]
}
