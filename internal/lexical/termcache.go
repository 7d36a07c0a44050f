package lexical

import "sync"

// termCache remembers the terms of words: stemming takes longer than all the
// rest of analysis, and few words make up most of a text.
type termCache struct {
	shards [64]termShard
}

// maxShard is how many words a shard remembers before it begins anew.
const maxShard = 2048

type termShard struct {
	mu    sync.RWMutex
	terms map[string]string
	_     [64]byte // so that shards do not share a line of the processor's cache
}

func (c *termCache) shard(word []byte) *termShard {
	h := uint32(2166136261) // FNV-1a
	for _, b := range word {
		h = (h ^ uint32(b)) * 16777619
	}
	return &c.shards[(h>>16^h)%64]
}

func (c *termCache) get(word []byte) (term string, ok bool) {
	s := c.shard(word)
	s.mu.RLock()
	term, ok = s.terms[string(word)]
	s.mu.RUnlock()
	return term, ok
}

func (c *termCache) put(word, term string) {
	s := c.shard([]byte(word))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terms == nil || len(s.terms) >= maxShard {
		s.terms = map[string]string{}
	}
	s.terms[word] = term
}
