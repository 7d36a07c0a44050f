package httpapi_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// The limits in OpenAPI come from struct tags, those that are checked from constants.
func TestOpenAPIHasTheLimitsThatAreChecked(t *testing.T) {
	for _, c := range []struct {
		of         any
		field, tag string
		want       int
	}{
		{api.Query{}, "query", "maxLength", schema.MaxQuestion},
		{api.Query{}, "plan", "maxLength", schema.MaxPlanName},
		{api.Query{}, "plan_text", "maxLength", schema.MaxPlanText},
		{api.Query{}, "choices", "minItems", schema.MinChoices},
		{api.Query{}, "choices", "maxItems", schema.MaxChoices},
		{api.Query{}, "history", "maxItems", schema.MaxTurns},
		{schema.Turn{}, "content", "maxLength", schema.MaxTurn},
		{api.NewCollection{}, "description", "maxLength", schema.MaxDescription},
		{api.CollectionChange{}, "description", "maxLength", schema.MaxDescription},
		{api.NewCollection{}, "language", "maxLength", schema.MaxLanguage},
		{api.NewDocument{}, "external_id", "maxLength", schema.MaxExternalID},
		{api.Fingerprint{}, "external_id", "maxLength", schema.MaxExternalID},
		{api.NewDocument{}, "labels", "maxItems", schema.MaxLabels},
		{api.DocumentChange{}, "labels", "maxItems", schema.MaxLabels},
		{api.NewDocument{}, "title", "maxLength", schema.MaxTitle},
	} {
		found := false
		for f := range reflect.TypeOf(c.of).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != c.field {
				continue
			}
			found = true
			if got := f.Tag.Get(c.tag); got != strconv.Itoa(c.want) {
				t.Errorf("%T, %s: %s is %q, and %d is checked", c.of, c.field, c.tag, got, c.want)
			}
		}
		if !found {
			t.Errorf("%T has no field %s", c.of, c.field)
		}
	}
}
