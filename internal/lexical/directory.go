package lexical

import "github.com/google/uuid"

// Directory says what a segment's ordinals mean: its entries, their sections
// and their passages, with lengths in analysed terms. Ordinals are of the
// segment and count from 0.
type Directory struct{}

// Entry is a version's place in a segment.
type Entry struct {
	ID, Version                uuid.UUID
	FirstSection, FirstPassage int // ordinals in the segment
	Sections, Passages         int
	TitleTerms, DocumentTerms  int // lengths; a document's has its title's in it
}

// OpenDirectory reads a segment's directory from the bytes of its directory
// pages, in the order of DirectoryPages.
func OpenDirectory(s *Segment, pages [][]byte) (*Directory, error) { return nil, errUnfinished }

// Bytes is about what the directory takes in memory.
func (d *Directory) Bytes() int { return 0 }

// Len is the number of entries.
func (d *Directory) Len() int { return 0 }

// Entry returns the entry with an ordinal.
func (d *Directory) Entry(entry int) Entry { return Entry{} }

// EntryByID finds an entry.
func (d *Directory) EntryByID(id uuid.UUID) (entry int, ok bool) { return 0, false }

// EntriesOf finds the entries of a version: one, or more where it was relabelled.
func (d *Directory) EntriesOf(version uuid.UUID) []int { return nil }

// EntryOf returns the ordinal of the entry that a passage lies in.
func (d *Directory) EntryOf(passage int) int { return 0 }

// RefOf names a passage.
func (d *Directory) RefOf(passage int) Ref { return Ref{} }

// PassagesOf is the range [first, end) of an entry's section's passages.
func (d *Directory) PassagesOf(entry, section int) (first, end int) { return 0, 0 }

// PassageTerms is the length of a passage.
func (d *Directory) PassageTerms(passage int) int { return 0 }

// SectionTerms is the length of an entry's section.
func (d *Directory) SectionTerms(entry, section int) int { return 0 }
