package auth

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// scriptedAccess stands in for the store of permissions.
type scriptedAccess struct {
	revision int64
	labels   map[string][]string // by person
	partial  bool                // the labels may change within the revision
	err      error
	asked    int
}

func (s *scriptedAccess) AccessRevision(context.Context, uuid.UUID) (int64, error) {
	return s.revision, s.err
}

func (s *scriptedAccess) AccessLabels(_ context.Context, p schema.Principal) ([]string, int64, error) {
	s.asked++
	if s.partial {
		return s.labels[p.Person], 0, s.err
	}
	return s.labels[p.Person], s.revision, s.err
}

func TestPermissionsAreThoseOfNow(t *testing.T) {
	const list = schema.AccessLabel + "a"
	s := &scriptedAccess{revision: 1, labels: map[string][]string{"ann": {list}}}
	a, now := NewPermits(s), time.Now()
	a.now = func() time.Time { return now }
	ann := schema.Principal{Tenant: uuid.New(), Person: "ann", Acting: true, Groups: []string{"staff", schema.AccessLabel + "forged"}}
	groups := func(p schema.Principal) []string {
		t.Helper()
		p, err := a.Permit(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return p.Groups
	}
	for range 3 {
		if got := groups(ann); !slices.Equal(got, []string{"staff", list}) {
			t.Fatalf("groups %q", got)
		}
	}
	if s.asked != 1 {
		t.Errorf("asked %d times for what has not changed", s.asked)
	}
	bob := ann
	bob.Person = "bob"
	if got := groups(bob); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("another person's groups %q", got)
	}

	s.revision, s.labels = 2, nil // revoked by another process
	now = now.Add(believeRevision)
	if got := groups(ann); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("half a second after: %q", got)
	}
	s.revision, s.labels = 3, map[string][]string{"ann": {list}}
	a.Forget(ann.Tenant)
	if got := groups(ann); !slices.Contains(got, list) {
		t.Errorf("after a change here: %q", got)
	}

	s.revision, s.labels, s.partial = 4, nil, true
	a.Forget(ann.Tenant)
	if got := groups(ann); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("while a list is ignored: %q", got)
	}
	s.labels, s.partial = map[string][]string{"ann": {list}}, false
	if got := groups(ann); !slices.Contains(got, list) {
		t.Errorf("when no list is ignored any more: %q", got)
	}

	s.err = schema.ErrUnavailable
	now = now.Add(believeRevision)
	if p, err := a.Permit(t.Context(), ann); !errors.Is(err, schema.ErrUnavailable) || !slices.Equal(p.Groups, []string{"staff"}) {
		t.Errorf("without the store: %q, %v", p.Groups, err)
	}
}

func TestNobodyGivesTheLabelsOfPermissions(t *testing.T) {
	err := check(schema.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, Groups: []string{schema.AccessLabel + "a"}}, time.Now())
	var wrong *schema.FieldError
	if !errors.As(err, &wrong) || wrong.Field != "groups[0]" {
		t.Errorf("a key with a list of a source as a group: %v", err)
	}
}
