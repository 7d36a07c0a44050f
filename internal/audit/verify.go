package audit

// This file walks a chain and finds where it is broken.

import (
	"bytes"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// ChainLink is an entry in its chain.
type ChainLink struct {
	Number int64
	Hash   []byte
	// Fields are the fields of the entry that are hashed; nil: the entry is missing.
	Fields []string
	// Removed says that retention removed the entry.
	Removed bool
}

// Walk checks a chain from the first kept entry to its end.
type Walk struct {
	number           int64
	hash             []byte
	entries, removed int64
}

// Begin returns a walk that begins after the entry with a number and hash; 0 and nil begin at the
// first entry.
func Begin(after int64, hash []byte) *Walk { return &Walk{number: after, hash: hash} }

// Next checks the next link, in the order of numbers, and returns what is wrong with it, or nil.
func (w *Walk) Next(l ChainLink) *schema.AuditBreak {
	broken := func(number int64, format string, args ...any) *schema.AuditBreak {
		return &schema.AuditBreak{Number: number, Problem: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.Number > w.number+1:
		return broken(w.number+1, "the entry is missing: after %d comes %d", w.number, l.Number)
	case l.Number <= w.number:
		return broken(l.Number, "the entry was inserted: there is another one of this number, or retention removed it")
	case l.Fields == nil && l.Removed:
		w.removed++
	case l.Fields == nil:
		return broken(l.Number, "the entry is missing, and it was not retention that removed it")
	case l.Removed:
		return broken(l.Number, "the entry is there, though retention is said to have removed it")
	case !bytes.Equal(l.Hash, Hash(w.hash, l.Fields)):
		return broken(l.Number, "the entry, or the order of entries, was changed: its hash is not that of its content after the entry before")
	default:
		w.entries++
	}
	w.number, w.hash = l.Number, l.Hash
	return nil
}

// End compares the last checked link with the chain's end, and returns what is wrong, or nil.
func (w *Walk) End(number int64, hash []byte) *schema.AuditBreak {
	switch {
	case w.number < number:
		return &schema.AuditBreak{Number: w.number + 1, Problem: fmt.Sprintf("the entry is missing: the chain ends with %d", number)}
	case w.number > number:
		return &schema.AuditBreak{Number: number + 1, Problem: fmt.Sprintf("the entry was inserted: the chain ends with %d", number)}
	case !bytes.Equal(w.hash, hash):
		return &schema.AuditBreak{Number: number, Problem: "the last entry's hash is not that of the chain's end"}
	}
	return nil
}

// Counts returns how many entries were intact so far, and how many retention removed.
func (w *Walk) Counts() (entries, removed int64) { return w.entries, w.removed }
