package lexical

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestTermCacheUsedConcurrently(t *testing.T) {
	t.Run("forgets words, never mistakes one for another", func(t *testing.T) {
		a := &Analyzer{rules: languages["en"], plain: true}
		var wait sync.WaitGroup
		for worker := range 2 {
			wait.Go(func() {
				for i := range 2 * termPlaces { // more than the cache holds
					word := fmt.Sprintf("w%dings", (i*7919+worker*31)%(3*termPlaces))
					if i%50 == 0 { // of the same length and beginning, so in the same slots
						word = fmt.Sprintf("internationalising%06d", i)
					}
					if got := a.Terms(word); !slices.Equal(got, []string{a.rules.term(word)}) {
						t.Errorf("terms of %q are %q, must be %q", word, got, a.rules.term(word))
						return
					}
				}
			})
		}
		wait.Wait()
	})
	t.Run("remembers what it met last", func(t *testing.T) {
		var c termCache
		for i := range 1000 {
			word := fmt.Sprintf("word%d", i)
			c.put(keyOf(word), word, strings.ToUpper(word))
			if term, ok := c.get(keyOf(word), []byte(word)); !ok || term != strings.ToUpper(word) {
				t.Fatalf("the term of %s is %q, %v", word, term, ok)
			}
		}
		kept := 0
		for i := range 1000 {
			word := fmt.Sprintf("word%d", i)
			if _, ok := c.get(keyOf(word), []byte(word)); ok {
				kept++
			}
		}
		if kept < 990 {
			t.Errorf("of 1000 words in %d places %d are remembered", termPlaces, kept)
		}
	})
	t.Run("keys of words of any length", func(t *testing.T) {
		seen := map[wordKey]string{}
		for _, word := range []string{"", "a", "a\x00", "\x00a", "ab", "sixteen letters.", "sixteen letters.x", "café"} {
			k := keyOf(word)
			if other, twice := seen[k]; twice {
				t.Errorf("%q and %q have one key", word, other)
			}
			seen[k] = word
			var lower loweredWord
			lower.length = copy(lower.bytes[:], word)
			if lower.key() != k {
				t.Errorf("%q has the keys %v and %v", word, lower.key(), k)
			}
		}
	})
}
