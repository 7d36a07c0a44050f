package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ask sends requests to a new index.
func ask(t *testing.T, requests ...request) []reply {
	t.Helper()
	var in, out bytes.Buffer
	for _, r := range requests {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(filepath.Join(t.TempDir(), "index"), &in, &out); err != nil {
		t.Fatal(err)
	}
	var replies []reply
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var r reply
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, r)
	}
	if len(replies) != len(requests) {
		t.Fatalf("%d replies to %d requests", len(replies), len(requests))
	}
	return replies
}

func TestPassagesAreFoundByStemAndRanked(t *testing.T) {
	texts := []string{
		"The bridges of the city were closed.",
		"A bridge is a bridge when bridges carry.",
		"Nothing of the kind was seen by anyone in the city.",
		"What carries it is what matters here.",
	}
	replies := ask(t,
		request{Op: "index", Texts: texts[:2], Batch: 1, Writers: 2},
		request{Op: "index", Texts: texts[2:], First: 2, Batch: 10, Writers: 1},
		request{Op: "merge"},
		request{Op: "search", Queries: []string{"Bridge", "the of is", "city CARRIED"}, K: 10, Hits: true},
		request{Op: "search", Queries: []string{"bridge"}, K: 1},
		request{Op: "size"},
	)
	for i, r := range replies {
		if r.Error != "" {
			t.Fatalf("request %d: %s", i, r.Error)
		}
	}
	hits := replies[3].Hits
	if !slices.Equal(hits[0], []int{1, 0}) {
		t.Errorf("bridge: %v", hits[0])
	}
	if len(hits[1]) != 0 {
		t.Errorf("stop words find %v", hits[1])
	}
	slices.Sort(hits[2])
	if !slices.Equal(hits[2], []int{0, 1, 2, 3}) {
		t.Errorf("city carried: %v", hits[2])
	}
	if replies[4].Found != 1 || replies[4].Hits != nil {
		t.Errorf("one hit, not listed: %+v", replies[4])
	}
	if replies[5].Documents != 4 || replies[5].Bytes == 0 {
		t.Errorf("size: %+v", replies[5])
	}
}

func TestMistakesAreAnswered(t *testing.T) {
	replies := ask(t, request{Op: "dance"}, request{Op: "index", Texts: []string{"x"}})
	for i, want := range []string{"no such operation", "at least 1"} {
		if !strings.Contains(replies[i].Error, want) {
			t.Errorf("request %d: %q", i, replies[i].Error)
		}
	}
}
