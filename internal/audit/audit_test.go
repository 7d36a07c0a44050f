package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// chain returns a chain of n reads.
func chain(n int) []ChainLink {
	var out []ChainLink
	var previous []byte
	for i := range n {
		fields := ReadFields(uuid.Nil, int64(i+1), time.UnixMicro(5), schema.AuditRead{Action: "search", Query: fmt.Sprint("question ", i)})
		previous = Hash(previous, fields)
		out = append(out, ChainLink{Number: int64(i + 1), Hash: previous, Fields: fields})
	}
	return out
}

func verify(after int64, hash []byte, links, whole []ChainLink) *schema.AuditBreak {
	w := Begin(after, hash)
	for _, l := range links {
		if b := w.Next(l); b != nil {
			return b
		}
	}
	last := whole[len(whole)-1]
	return w.End(last.Number, last.Hash)
}

func TestEveryTamperingIsFound(t *testing.T) {
	whole := chain(6)
	if b := verify(0, nil, whole, whole); b != nil {
		t.Fatalf("a whole chain: %+v", b)
	}
	if b := verify(2, whole[1].Hash, whole[2:], whole); b != nil {
		t.Fatalf("the rest after retention: %+v", b)
	}
	for name, c := range map[string]struct {
		tamper func([]ChainLink) []ChainLink
		number int64
		says   string
	}{
		"changed": {func(l []ChainLink) []ChainLink {
			l[2].Fields = slices.Clone(l[2].Fields)
			l[2].Fields[17] = "other"
			return l
		}, 3, "changed"},
		"changed with hash": {func(l []ChainLink) []ChainLink {
			l[2].Fields = slices.Clone(l[2].Fields)
			l[2].Fields[17] = "other"
			l[2].Hash = Hash(l[1].Hash, l[2].Fields)
			return l
		}, 4, "changed"},
		"last changed, hash": {func(l []ChainLink) []ChainLink {
			l[5].Fields = slices.Clone(l[5].Fields)
			l[5].Fields[17] = "other"
			l[5].Hash = Hash(l[4].Hash, l[5].Fields)
			return l
		}, 6, "end"},
		"removed":          {func(l []ChainLink) []ChainLink { return slices.Delete(l, 2, 3) }, 3, "missing"},
		"content removed":  {func(l []ChainLink) []ChainLink { l[2].Fields = nil; return l }, 3, "not retention"},
		"first removed":    {func(l []ChainLink) []ChainLink { return l[1:] }, 1, "missing"},
		"last removed":     {func(l []ChainLink) []ChainLink { return l[:5] }, 6, "missing"},
		"all removed":      {func([]ChainLink) []ChainLink { return nil }, 1, "missing"},
		"reordered":        {func(l []ChainLink) []ChainLink { l[2].Fields, l[3].Fields = l[3].Fields, l[2].Fields; return l }, 3, "changed"},
		"reordered wholly": {func(l []ChainLink) []ChainLink { l[2], l[3] = l[3], l[2]; l[2].Number, l[3].Number = 3, 4; return l }, 3, "changed"},
		"inserted":         {func(l []ChainLink) []ChainLink { return slices.Insert(l, 3, l[2]) }, 3, "inserted"},
		"inserted at end": {func(l []ChainLink) []ChainLink {
			return append(l, ChainLink{Number: 7, Fields: l[0].Fields, Hash: Hash(l[5].Hash, l[0].Fields)})
		}, 7, "inserted"},
		"said to be removed": {func(l []ChainLink) []ChainLink { l[2].Removed = true; return l }, 3, "though"},
	} {
		b := verify(0, nil, c.tamper(slices.Clone(whole)), whole)
		if b == nil || b.Number != c.number || !strings.Contains(b.Problem, c.says) {
			t.Errorf("%s: %+v, want number %d and %q", name, b, c.number, c.says)
		}
	}
}

// The end of one field cannot be moved to the beginning of the next.
func TestFieldsAreApart(t *testing.T) {
	if slices.Equal(Hash(nil, []string{"ab", "c"}), Hash(nil, []string{"a", "bc"})) {
		t.Error("two entries have one hash")
	}
}

// Each field of a read changes the hash.
func TestEveryFieldIsHashed(t *testing.T) {
	key := uuid.New()
	whole := schema.AuditRead{ID: uuid.New(), At: time.UnixMicro(1), Action: "a", Status: 200, Via: "mcp", Key: &key, KeyName: "k", Person: "p", Address: "1", Agent: "g",
		Trace: "t", Collection: "c", Target: "d", Query: "q", Documents: []uuid.UUID{key}}
	seen := map[string]int{}
	add := func(r schema.AuditRead) {
		seen[string(Hash(nil, ReadFields(uuid.Nil, 1, time.Time{}, r)))]++
	}
	add(whole)
	for _, change := range []func(*schema.AuditRead){
		func(r *schema.AuditRead) { r.ID = uuid.Nil }, func(r *schema.AuditRead) { r.At = time.UnixMicro(2) }, func(r *schema.AuditRead) { r.Action = "" },
		func(r *schema.AuditRead) { r.Status = 404 }, func(r *schema.AuditRead) { r.Via = "" }, func(r *schema.AuditRead) { r.Key = nil },
		func(r *schema.AuditRead) { r.KeyName = "" }, func(r *schema.AuditRead) { r.Person = "" }, func(r *schema.AuditRead) { r.Address = "" },
		func(r *schema.AuditRead) { r.Agent = "" }, func(r *schema.AuditRead) { r.Trace = "" }, func(r *schema.AuditRead) { r.Collection = "" },
		func(r *schema.AuditRead) { r.Target = "" }, func(r *schema.AuditRead) { r.Query = "" }, func(r *schema.AuditRead) { r.Documents = nil },
	} {
		r := whole
		change(&r)
		add(r)
	}
	if len(seen) != 16 {
		t.Errorf("%d hashes of 16 entries", len(seen))
	}
}
