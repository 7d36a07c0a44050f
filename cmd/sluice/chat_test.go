package main

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestRememberedIsWhatAQuestionMayHave(t *testing.T) {
	var history []schema.Turn
	for range schema.MaxTurns {
		history = remembered(append(history, schema.Turn{Content: "first"}, schema.Turn{Content: "last"}))
	}
	if len(history) != schema.MaxTurns || history[len(history)-1].Content != "last" {
		t.Errorf("of many turns %d are remembered, to %+v", len(history), history[len(history)-1])
	}
	long := strings.Repeat("ä", schema.MaxTurn+1)
	bytes := 0
	for range 20 {
		history = remembered(append(history, schema.Turn{Content: long}))
	}
	for _, turn := range history {
		bytes += len(turn.Content)
	}
	if bytes > schema.MaxHistory || len(history) != schema.MaxHistory/(2*schema.MaxTurn) {
		t.Errorf("of long turns %d bytes in %d turns are remembered", bytes, len(history))
	}
}
