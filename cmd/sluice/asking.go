package main

// What a terminal shows while an answer is made.

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

// screen shows the current step in a line that is overwritten, and the answer's text as it arrives.
type screen struct {
	out   io.Writer
	text  strings.Builder // shown so far
	stage bool            // the current line shows a step
}

// checkedHeading separates text that was shown early from the final answer.
const checkedHeading = "The answer, checked:"

// clearLine erases the current line.
const clearLine = "\r\x1b[K"

func (s *screen) show(p apiclient.Progress) {
	if p.Stage != nil && s.text.Len() == 0 {
		line := p.Stage.Stage
		if p.Stage.Candidates > 0 {
			line += fmt.Sprintf(", %s", plural(p.Stage.Candidates, "passage"))
		}
		fmt.Fprint(s.out, clearLine+printable(line)+" ...")
		s.stage = true
	}
	if p.Delta == nil {
		return
	}
	if p.Delta.Restart && s.text.Len() > 0 {
		if p.Delta.Checked {
			fmt.Fprintln(s.out, "\n\n"+checkedHeading)
		} else {
			fmt.Fprintln(s.out, "\n(the answer begins again)")
		}
		s.text.Reset()
	}
	if p.Delta.Text != "" {
		s.clearStep()
		text := printable(p.Delta.Text)
		s.text.WriteString(text)
		fmt.Fprint(s.out, text)
	}
}

// clearStep erases the step that is shown.
func (s *screen) clearStep() {
	if s.stage {
		fmt.Fprint(s.out, clearLine)
		s.stage = false
	}
}

// end shows the final answer, unless the text on the screen is the same.
func (s *screen) end(a schema.Answer) {
	s.clearStep()
	shown := strings.Fields(s.text.String())
	if len(shown) > 0 {
		fmt.Fprintln(s.out)
	}
	if slices.Equal(shown, strings.Fields(printable(a.Answer))) {
		return
	}
	if len(shown) > 0 {
		fmt.Fprintln(s.out, "\n"+checkedHeading)
	}
	indent(s.out, "", a.Answer, 100)
}

// fail erases the step and ends the line, so that the error starts on a new one.
func (s *screen) fail() {
	s.clearStep()
	if s.text.Len() > 0 {
		fmt.Fprintln(s.out)
	}
}

// printChoice prints the choice that an answer selected.
func printChoice(a schema.Answer, choices []string) {
	if a.Choice < 1 || a.Choice > len(choices) {
		if len(choices) > 0 {
			fmt.Println("\n  none of the choices")
		}
		return
	}
	fmt.Printf("\n  %c) %s\n", 'A'+a.Choice-1, printable(choices[a.Choice-1]))
}

// onTerminal reports whether standard output is a terminal.
func onTerminal() bool { return terminal(os.Stdout) }
