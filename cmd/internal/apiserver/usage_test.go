package apiserver_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestLimitsAreTheOperatorsAndUsageTheAdmins(t *testing.T) {
	w := newWorld(t)
	put := func(u user, tenant uuid.UUID, body string) response {
		return u.do(http.MethodPut, "/v1/tenants/"+tenant.String()+"/limits", bytes.NewReader([]byte(body)), "")
	}
	var other api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &other)
	admin := user{t: t, url: w.url, key: other.APIKey}

	var set, seen schema.LLMUsage
	put(w.user, other.ID, `{"tokens_per_day": 1000, "dollars_per_month": 2.5, "calls_at_once": 3}`).want(http.StatusOK, &set)
	if *set.Limits.TokensPerDay != 1000 || *set.Limits.DollarsPerMonth != 2.5 || *set.Limits.CallsAtOnce != 3 || set.Limits.CallsPerMinute != nil {
		t.Errorf("set %+v", set.Limits)
	}
	admin.do(http.MethodGet, "/v1/usage", nil, "").want(http.StatusOK, &seen)
	if *seen.Limits.TokensPerDay != 1000 || seen.Day.Calls != 0 || !seen.Day.Resets.After(seen.Day.Since) || seen.Month.Resets.Before(seen.Day.Resets) {
		t.Errorf("seen %+v", seen)
	}
	w.do(http.MethodGet, "/v1/tenants/"+other.ID.String()+"/usage", nil, "").want(http.StatusOK, &seen)
	var free schema.LLMUsage
	put(w.user, other.ID, `{}`).want(http.StatusOK, &free)
	if free.Limits != (schema.LLMLimits{}) {
		t.Errorf("an absent limit is one: %+v", free.Limits)
	}

	put(admin, other.ID, `{}`).want(http.StatusForbidden, nil)
	put(admin, w.admin.Tenant, `{}`).want(http.StatusNotFound, nil)
	put(w.user, uuid.New(), `{}`).want(http.StatusNotFound, nil)
	put(w.user, other.ID, `{"tokens_per_day": -1}`).want(http.StatusUnprocessableEntity, nil)
	admin.do(http.MethodGet, "/v1/tenants/"+w.admin.Tenant.String()+"/usage", nil, "").want(http.StatusNotFound, nil)
	w.with(nil, schema.ScopeQuery).do(http.MethodGet, "/v1/usage", nil, "").want(http.StatusForbidden, nil)
}
