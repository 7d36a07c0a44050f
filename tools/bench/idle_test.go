package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDocumentsOfAnIdleServerAreDividedEvenly(t *testing.T) {
	for _, c := range []struct {
		total, parts int
		want         []int
	}{{10, 3, []int{3, 3, 4}}, {4, 4, []int{1, 1, 1, 1}}, {7, 1, []int{7}}} {
		if got := shares(c.total, c.parts); !slices.Equal(got, c.want) {
			t.Errorf("%d in %d parts: %v, not %v", c.total, c.parts, got, c.want)
		}
	}
}

func TestShortDocumentsHaveOnePassageAndDiffer(t *testing.T) {
	texts := short{newSynthetic(1)}
	seen := map[string]bool{}
	for i := range 200 {
		d := texts.document(i)
		if d.passages() != 1 {
			t.Fatalf("document %d has %d passages", i, d.passages())
		}
		text := d.pieces[0].passage(0)
		if words := wordsIn(text); words < 3 || words > 10*shortWords {
			t.Errorf("document %d has %d words", i, words)
		}
		if seen[text] {
			t.Errorf("document %d is like another", i)
		}
		seen[text] = true
		if again := texts.document(i); again.pieces[0].text != text {
			t.Errorf("document %d is another one the second time", i)
		}
	}
}

// newReading returns a sample at a time, with what the server has used by then.
func newReading(at time.Time, cpu, transactions, log float64, calls map[int64]float64) idleReading {
	out := idleReading{at: at, transactions: transactions, log: log, statements: map[int64]statement{},
		usage: usage{seconds: map[part]float64{partSluice: cpu, partSQL: 2 * cpu}, servers: map[part][]int{partSluice: {1}}}}
	for id, n := range calls {
		out.statements[id] = statement{text: "SELECT\n  1", calls: n, millis: 2 * n, log: 10 * n}
	}
	return out
}

func TestSpendingIsPerMinute(t *testing.T) {
	begin := time.Now()
	before := newReading(begin, 1, 100, 1000, map[int64]float64{1: 10, 2: 5})
	// The second sample is two minutes later. Statement 2 was not called, and 3 is new.
	got, err := newReading(begin.Add(2*time.Minute), 4, 160, 5000, map[int64]float64{1: 30, 2: 5, 3: 8}).since(before)
	if err != nil {
		t.Fatal(err)
	}
	if got.cpu[partSluice] != 1.5 || got.cpu[partSQL] != 3 || got.seconds() != 4.5 {
		t.Errorf("processor time: %v", got.cpu)
	}
	if got.transactions != 30 || got.log != 2000 || got.statements != 14 {
		t.Errorf("%v transactions, %v bytes, %v statements", got.transactions, got.log, got.statements)
	}
	if len(got.each) != 2 || got.each[1].millis != 20 || got.each[1].log != 100 || got.each[3].calls != 4 {
		t.Errorf("statements: %+v", got.each)
	}
}

func TestSpendingOfAServerThatEndedIsAnError(t *testing.T) {
	begin := time.Now()
	before := newReading(begin, 1, 0, 0, nil)
	after := newReading(begin.Add(time.Minute), 2, 0, 0, nil)
	after.usage.servers = map[part][]int{partSluice: {7}}
	if _, err := after.since(before); err == nil {
		t.Error("a server that started anew is measured")
	}
}

func TestCostliestStatementsComeFirst(t *testing.T) {
	round := func(millis ...float64) idleSpending {
		s := idleSpending{each: map[int64]statement{}}
		for i, ms := range millis {
			s.each[int64(i)] = statement{text: string(rune('a' + i)), calls: 1, millis: ms}
		}
		return s
	}
	got := costliest([]idleSpending{round(1, 9, 2), round(3, 1)}, 2)
	if len(got) != 2 || got[0].text != "b" || got[0].millis != 5 || got[1].text != "a" || got[1].millis != 2 {
		t.Errorf("%+v", got)
	}
	if got := costliest(nil, 3); len(got) != 0 {
		t.Errorf("of no rounds: %+v", got)
	}
}

func TestIdleRatios(t *testing.T) {
	f := &findings{}
	side := func(cpu, n float64) []idleSpending {
		return []idleSpending{{cpu: map[part]float64{partSQL: cpu}, statements: n, transactions: n, log: n}}
	}
	f.idleRatios(side(3, 100), side(1, 100))
	if len(f.Ratios) != 4 || f.Ratios[0].value() != 3 || f.Ratios[0].reached() || !f.Ratios[1].reached() {
		t.Errorf("%+v", f.Ratios)
	}
	f.idleSide(idleSide{name: "empty", spent: side(1, 1)}, 0)
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0].Says, "PostgreSQL 1.00") {
		t.Errorf("%+v", f.Notes)
	}
}

func TestOptionsOfAnIdleServerAreChecked(t *testing.T) {
	good := idleCommand{Documents: 10, Collections: 5, Tenants: 2, Window: time.Minute, Rounds: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*idleCommand){
		"rounds":      func(c *idleCommand) { c.Rounds = 0 },
		"tenants":     func(c *idleCommand) { c.Tenants = 0 },
		"collections": func(c *idleCommand) { c.Collections = 1 },
		"documents":   func(c *idleCommand) { c.Documents = 4 },
		"window":      func(c *idleCommand) { c.Window = 0 },
		"statements":  func(c *idleCommand) { c.Statements = -1 },
	} {
		bad := good
		change(&bad)
		if err := bad.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
