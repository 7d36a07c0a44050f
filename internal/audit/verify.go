package audit

// This file walks a chain and finds where it is not whole.

import (
	"bytes"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// ChainLink is an entry's place in its chain.
type ChainLink struct {
	Number int64
	Hash   []byte
	// Fields are what is hashed of the entry; nil: it is not there.
	Fields []string
	// Removed says that retention removed the entry.
	Removed bool
}

// Walk goes along a chain from the first entry that is kept to its end.
type Walk struct {
	number           int64
	hash             []byte
	entries, removed int64
}

// Begin returns a walk over what comes after the entry of a number and hash; 0 and
// none: over all.
func Begin(after int64, hash []byte) *Walk { return &Walk{number: after, hash: hash} }

// Next takes the next link, in the order of numbers, and says what is wrong with it;
// nil: nothing.
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

// End compares where the walk came to with the chain's end, and says what is wrong.
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

// Counts are how many entries were good so far, and how many retention removed.
func (w *Walk) Counts() (entries, removed int64) { return w.entries, w.removed }
