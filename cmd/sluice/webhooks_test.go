package main

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestTheKindsOfWebhooksAreTheSame: the API's enum and the flag list all kinds.
func TestTheKindsOfWebhooksAreTheSame(t *testing.T) {
	all := strings.Join(schema.WebhookKinds, ",")
	of, _ := reflect.TypeFor[api.NewWebhook]().FieldByName("Kinds")
	if got := of.Tag.Get("enum"); got != all || of.Tag.Get("maxItems") != strconv.Itoa(len(schema.WebhookKinds)) {
		t.Errorf("the API takes %s, at most %s of them; there are %s", got, of.Tag.Get("maxItems"), all)
	}
	flag, _ := reflect.TypeFor[webhooksAdd]().FieldByName("Kind")
	if got := flag.Tag.Get("enum"); got != all {
		t.Errorf("--kind takes %s; there are %s", got, all)
	}
}
