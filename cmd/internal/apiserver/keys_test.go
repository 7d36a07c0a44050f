package apiserver_test

// Operators manage the keys and the storage of any tenant. All others only manage those of their
// own tenant.

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestAnOperatorLooksAfterATenantsKeys(t *testing.T) {
	w := newWorld(t) // its key has the operator scope
	five := int64(5)
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "acme", MaxDocuments: &five}, "").want(http.StatusCreated, &made)
	acme := user{t: t, url: w.url, key: made.APIKey}
	var crawler api.KeyCreated
	acme.post("/v1/keys", api.NewKey{Name: "crawler", Scopes: []schema.Scope{schema.ScopeIngest}, Groups: []string{"staff"}}, "").want(http.StatusCreated, &crawler)
	path := "/v1/tenants/" + made.ID.String() + "/keys"
	list := func(u user, path string) (names []string, keys map[string]api.Key) {
		t.Helper()
		keys = map[string]api.Key{}
		r := u.do(http.MethodGet, path, nil, "")
		var page api.Page[api.Key]
		r.want(http.StatusOK, &page)
		for _, k := range page.Items {
			names, keys[k.Name] = append(names, k.Name), k
		}
		for _, secret := range []string{made.APIKey, crawler.APIKey} {
			if strings.Contains(string(r.body), secret) || strings.Contains(string(r.body), "hash") {
				t.Errorf("a list shows a secret: %s", r.body)
			}
		}
		return names, keys
	}

	names, keys := list(w.user, path)
	if !slices.Equal(names, []string{"admin", "crawler"}) || keys["admin"].LastUsedAt == nil || keys["crawler"].LastUsedAt != nil ||
		!slices.Equal(keys["crawler"].Scopes, []schema.Scope{schema.ScopeIngest}) || keys["crawler"].Groups[0] != "staff" {
		t.Errorf("the operator sees %+v", keys)
	}
	user{t: t, url: w.url, key: crawler.APIKey}.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusOK, nil)
	if _, keys = list(acme, "/v1/keys"); keys["crawler"].LastUsedAt == nil || !keys["crawler"].LastUsedAt.After(crawler.CreatedAt) {
		t.Errorf("the used key is %+v", keys["crawler"])
	}

	// Of the operator's own tenant, and of an unknown one.
	if names, _ := list(w.user, "/v1/tenants/"+w.admin.Tenant.String()+"/keys"); len(names) != 1 {
		t.Errorf("the operator's own are %v", names)
	}
	w.do(http.MethodGet, "/v1/tenants/"+uuid.NewString()+"/keys", nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodDelete, path+"/"+uuid.NewString(), nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodDelete, "/v1/tenants/"+w.admin.Tenant.String()+"/keys/"+crawler.ID.String(), nil, "").want(http.StatusNotFound, nil)

	// An admin sees the keys of its own tenant only, and another key sees none.
	own := "/v1/tenants/" + w.admin.Tenant.String() + "/keys"
	acme.do(http.MethodGet, own, nil, "").want(http.StatusNotFound, nil)
	acme.do(http.MethodDelete, own+"/"+w.admin.Key.String(), nil, "").want(http.StatusNotFound, nil)
	if names, _ := list(acme, path); len(names) != 2 {
		t.Errorf("an admin sees %v", names)
	}
	user{t: t, url: w.url, key: crawler.APIKey}.do(http.MethodGet, path, nil, "").want(http.StatusForbidden, nil)

	w.do(http.MethodDelete, path+"/"+crawler.ID.String(), nil, "").want(http.StatusNoContent, nil)
	user{t: t, url: w.url, key: crawler.APIKey}.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusUnauthorized, nil)
	if _, keys = list(w.user, path); keys["crawler"].RevokedAt == nil || keys["admin"].RevokedAt != nil {
		t.Errorf("after one was revoked they are %+v", keys)
	}
	// The tenant's audit log says who did it.
	var log api.Page[api.AuditEntry]
	acme.do(http.MethodGet, "/v1/audit", nil, "").want(http.StatusOK, &log)
	if e := log.Items[0]; e.Action != "key.revoke" || e.Target != crawler.ID.String() || e.Actor != "key:"+w.admin.Key.String() {
		t.Errorf("the log says %+v", e)
	}
}

func TestAnOperatorSeesWhatATenantHasStored(t *testing.T) {
	w := newWorld(t)
	five, most := int64(5), int64(1000)
	var made api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "acme", MaxDocuments: &five, MaxBytes: &most}, "").want(http.StatusCreated, &made)
	acme := user{t: t, url: w.url, key: made.APIKey}
	acme.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	for name, content := range map[string]string{"a.txt": "twelve bytes", "b.txt": "twelve bytes", "c.txt": "six by"} {
		acme.do(http.MethodPut, "/v1/collections/c/content?external_id="+name, strings.NewReader(content), "").want(http.StatusOK, nil)
	}
	path := "/v1/tenants/" + made.ID.String() + "/storage"
	for _, u := range []user{w.user, acme} {
		var has schema.Storage
		u.do(http.MethodGet, path, nil, "").want(http.StatusOK, &has)
		if has.Documents != 3 || has.Bytes != 18 || *has.MaxDocuments != 5 || *has.MaxBytes != 1000 {
			t.Errorf("it has %+v", has)
		}
	}
	acme.do(http.MethodGet, "/v1/tenants/"+w.admin.Tenant.String()+"/storage", nil, "").want(http.StatusNotFound, nil)
	w.do(http.MethodGet, "/v1/tenants/"+uuid.NewString()+"/storage", nil, "").want(http.StatusNotFound, nil)
}
