package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// chatCommand asks each line that is typed, with the conversation so far.
type chatCommand struct{ queryFlags }

// handlesSignals makes Ctrl-C end the program at once, because it waits for a line.
func (*chatCommand) handlesSignals() {}

func (c *chatCommand) Run(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	q, err := c.query(ctx, client)
	if err != nil {
		return err
	}
	prompt := !c.JSON && onTerminal() && terminal(os.Stdin)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4*schema.MaxQuestion+1)
	failed := false
	for {
		if prompt {
			fmt.Print("> ")
		}
		if !lines.Scan() {
			break
		}
		if q.Query = strings.TrimSpace(lines.Text()); q.Query == "" {
			continue
		}
		answer, err := streamAnswer(ctx, client, q, c.JSON)
		if err != nil {
			fmt.Fprintln(os.Stderr, "sluice: "+err.Error())
			failed = true
			continue
		}
		if !c.JSON {
			if answer.Standalone != "" {
				indent(os.Stdout, "  ", "Understood as: "+answer.Standalone, 98)
			}
			printCitations(answer)
			fmt.Println()
		}
		q.History = remembered(append(q.History, schema.Turn{Role: schema.RoleUser, Content: q.Query},
			schema.Turn{Role: schema.RoleAssistant, Content: answer.Answer}))
	}
	if prompt {
		fmt.Println()
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a question: %w", err)
	}
	if failed {
		return errSilent
	}
	return nil
}

// remembered returns the end of a conversation, as much as a question may have.
func remembered(history []schema.Turn) []schema.Turn {
	bytes, from := 0, len(history)
	for from > 0 && len(history)-from < schema.MaxTurns {
		t := &history[from-1]
		if text := []rune(t.Content); len(text) > schema.MaxTurn {
			t.Content = string(text[:schema.MaxTurn])
		}
		if bytes += len(t.Content); bytes > schema.MaxHistory {
			break
		}
		from--
	}
	return history[from:]
}
