package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type sessionsCommand struct {
	List sessionsList `cmd:"" default:"withargs" help:"List sessions of people who signed in at the provider, newest first."`
	End  sessionsEnd  `cmd:"" help:"End a session."`
}

type sessionsList struct{ remote }

func (l *sessionsList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Sessions(ctx), "ID STATE BEGAN USED ADDRESS NAME", func(s api.PersonSession) []any {
		state := "active"
		switch {
		case s.EndedAt != nil:
			state = "ended"
		case s.ExpiresAt.Before(time.Now()):
			state = "expired"
		}
		used := "never"
		if s.LastUsedAt != nil {
			used = s.LastUsedAt.Local().Format(time.DateTime)
		}
		return []any{s.ID, state, s.CreatedAt.Local().Format(time.DateTime), used, s.Address, s.Name}
	})
}

type sessionsEnd struct {
	remote
	Session string `arg:"" help:"The session's id."`
}

func (e *sessionsEnd) Run(ctx context.Context) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	id, err := schema.ParseID("session", e.Session)
	if err != nil {
		return err
	}
	if err := c.EndSession(ctx, id); err != nil {
		return err
	}
	if e.JSON {
		return printJSON(map[string]any{"id": id, "ended": true})
	}
	fmt.Println("ended " + id.String())
	return nil
}
