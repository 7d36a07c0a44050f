package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestReferencesAreWhatAJudgeMayBeShown: references have each right answer once, no empty one, and
// at most as many as the server accepts.
func TestReferencesAreWhatAJudgeMayBeShown(t *testing.T) {
	if got := references([]string{" five", "", "five", "5 "}); !slices.Equal(got, []string{"five", "5"}) {
		t.Errorf("got %q", got)
	}
	var many []string
	for i := range 2 * schema.MaxReferences {
		many = append(many, fmt.Sprint(i))
	}
	if got := references(many); !slices.Equal(got, many[:schema.MaxReferences]) {
		t.Errorf("got %d", len(got))
	}
}

// TestJudgingIsTriedBeforeAnythingIsMeasured: the trial is a call that does not ask the language
// model.
func TestJudgingIsTriedBeforeAnythingIsMeasured(t *testing.T) {
	var asked []api.AnswerToJudge
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a api.AnswerToJudge
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		asked = append(asked, a)
		if status != http.StatusOK {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Detail: "scripted"})
			return
		}
		_ = json.NewEncoder(w).Encode(schema.Judgement{Model: "openai/scripted"})
	}))
	defer server.Close()
	client, err := apiclient.New(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := canJudge(t.Context(), client); err != nil || len(asked) != 1 || !asked[0].DryRun {
		t.Errorf("%v; asked %+v", err, asked)
	}
	if _, err := (judge{client}).Judge(t.Context(), evaluate.Topic{Text: "Why?", Answers: []string{"so"}}, "Because."); err != nil || asked[1].DryRun || asked[1].Answer != "Because." || asked[1].References[0] != "so" {
		t.Errorf("%v; asked %+v", err, asked)
	}
	var wrong *schema.FieldError
	status = http.StatusUnprocessableEntity
	if err := canJudge(t.Context(), client); !errors.As(err, &wrong) || wrong.Field != "judge" || !strings.Contains(err.Error(), "scripted") {
		t.Errorf("without a language model: %v", err)
	}
	status = http.StatusNotFound
	if err := canJudge(t.Context(), client); err == nil || !strings.Contains(err.Error(), "which language model judges") {
		t.Errorf("an older server: %v", err)
	}
}
