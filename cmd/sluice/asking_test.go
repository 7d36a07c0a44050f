package main

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestScreenLeavesTheAnswerThatCounts(t *testing.T) {
	stage := func(name string) apiclient.Progress {
		return apiclient.Progress{Stage: &api.StageEvent{Stage: name, Candidates: 3}}
	}
	delta := func(text string, restart bool) apiclient.Progress {
		return apiclient.Progress{Delta: &api.DeltaEvent{Text: text, Restart: restart}}
	}
	for _, c := range []struct {
		what     string
		progress []apiclient.Progress
		final    string
		want     string
	}{
		{"the same", []apiclient.Progress{stage("generate"), delta("Five ", false), delta("days.", false), stage("finish")}, "Five days.",
			clearLine + "generate, 3 passages ..." + clearLine + "Five days.\n"},
		{"another", []apiclient.Progress{delta("Five days.", false)}, schema.NoAnswer, "Five days.\n\nThe answer, checked:\n" + schema.NoAnswer + "\n"},
		{"nothing told", []apiclient.Progress{stage("generate")}, "Five days.", clearLine + "generate, 3 passages ..." + clearLine + "Five days.\n"},
		{"taken back", []apiclient.Progress{delta("Five days.", false), {Delta: &api.DeltaEvent{Text: schema.NoAnswer, Restart: true, Checked: true}}}, schema.NoAnswer,
			"Five days.\n\nThe answer, checked:\n" + schema.NoAnswer + "\n"},
		{"anew", []apiclient.Progress{delta("Four", false), delta("Five", true)}, "Five", "Four\n(the answer begins again)\nFive\n"},
		{"what moves the cursor", []apiclient.Progress{delta("a\x1b[2Jb", false)}, "a [2Jb", "a [2Jb\n"},
	} {
		var out strings.Builder
		s := &screen{out: &out}
		for _, p := range c.progress {
			s.show(p)
		}
		s.end(schema.Answer{Answer: c.final})
		if out.String() != c.want {
			t.Errorf("%s: shown %q, want %q", c.what, out.String(), c.want)
		}
	}
}
