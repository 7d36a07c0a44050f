package store_test

// This file has the reference implementation of permissions, which shares no code with the store.

import (
	"github.com/sluice-rag/sluice/schema"
)

// remoteModel is the reference: the remote system's contents, and the mapping of people to its
// principals.
type remoteModel struct {
	groups  map[string]map[string]bool // members of groups, by group id
	users   map[string]bool
	names   map[string]string
	folders map[string]*accessNode
	items   map[string]*accessNode
	mapped  map[string]map[schema.AccessSubject]bool // of principals
}

// accessNode is a folder or an item.
type accessNode struct {
	in       string
	inherits bool
	rules    []rule
	needs    [][]rule
}

type rule struct {
	who  string
	deny bool
	rank int
}

// is reports whether somebody is a principal: by a mapping of it, or of a member of it.
func (p *remoteModel) is(who []schema.AccessSubject, principal string, passed map[string]bool) bool {
	members, group := p.groups[principal]
	if passed[principal] || !group && !p.users[principal] {
		return false
	}
	passed[principal] = true
	for _, w := range who {
		if p.mapped[principal][w] {
			return true
		}
	}
	for m := range members {
		if p.is(who, m, passed) {
			return true
		}
	}
	return false
}

func (p *remoteModel) matchesAny(who []schema.AccessSubject) bool {
	for principal := range p.mapped {
		if p.is(who, principal, map[string]bool{}) {
			return true
		}
	}
	return false
}

// sees reports whether somebody may see an item.
func (p *remoteModel) sees(who []schema.AccessSubject, item string) bool {
	if !p.matchesAny(who) {
		return false
	}
	var chain []*accessNode
	passed := map[string]bool{}
	for at := p.items[item]; ; {
		chain = append(chain, at)
		if !at.inherits || at.in == "" {
			break
		}
		next := p.folders[at.in]
		if next == nil || passed[at.in] {
			return false
		}
		passed[at.in] = true
		at = next
	}
	decided, allow := false, false
	for _, at := range chain {
		for _, need := range at.needs {
			if _, in := p.decide(who, need); !in {
				return false
			}
		}
		if !decided {
			decided, allow = p.decide(who, at.rules)
		}
	}
	return allow
}

// decide returns what the lowest rank of rules with a rule for somebody decides.
func (p *remoteModel) decide(who []schema.AccessSubject, rules []rule) (decided, allow bool) {
	for rank := range 4 {
		for _, r := range rules {
			_, group := p.groups[r.who]
			unknown := r.who != "*" && !group && !p.users[r.who]
			is := r.who == "*" || p.is(who, r.who, map[string]bool{})
			switch {
			case r.rank != rank:
			case r.deny && (is || unknown):
				return true, false
			case is:
				decided, allow = true, true
			}
		}
		if decided {
			return decided, allow
		}
	}
	return false, false
}
