package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestReclusteringIsAskedForByAdmins(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	w.with(nil, schema.ScopeIngest, schema.ScopeQuery).post("/v1/collections/c/recluster", struct{}{}, "").want(http.StatusForbidden, nil)
	w.post("/v1/collections/other/recluster", struct{}{}, "").want(http.StatusNotFound, nil)
	if n := scalar[int](w, `SELECT count(*) FROM reclusterings`); n != 0 {
		t.Fatalf("%d collections are to be clustered anew", n)
	}
	for range 2 {
		w.post("/v1/collections/c/recluster", struct{}{}, "").want(http.StatusAccepted, nil)
	}
	if n := scalar[int](w, `SELECT count(*) FROM reclusterings r JOIN collections c ON c.id = r.collection_id AND c.name = 'c'`); n != 1 {
		t.Errorf("%d collections are to be clustered anew, want c", n)
	}
	if n := scalar[int](w, `SELECT count(*) FROM audit WHERE action = 'collection.recluster'`); n != 2 {
		t.Errorf("%d entries in the audit", n)
	}
	for _, tokens := range []int{999, 64_001} {
		w.post("/v1/collections/c/recluster", api.NewClusters{ClusterTokens: tokens}, "").want(http.StatusUnprocessableEntity, nil)
	}
	var c schema.Collection
	w.do(http.MethodGet, "/v1/collections/c", nil, "").want(http.StatusOK, &c)
	if c.ClusterTokens != schema.DefaultClusterTokens {
		t.Errorf("clusters have %d tokens", c.ClusterTokens)
	}
	w.post("/v1/collections/c/recluster", api.NewClusters{ClusterTokens: 2000}, "").want(http.StatusAccepted, nil)
	w.do(http.MethodGet, "/v1/collections/c", nil, "").want(http.StatusOK, &c)
	if c.ClusterTokens != 2000 {
		t.Errorf("clusters have %d tokens, want 2000", c.ClusterTokens)
	}
}
