package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

type webhooksCommand struct {
	List       webhooksList       `cmd:"" default:"withargs" help:"List webhooks."`
	Add        webhooksAdd        `cmd:"" help:"Have events sent to a server; prints the secret once."`
	Rotate     webhooksRotate     `cmd:"" help:"Make another secret; the one before signs, too, for a day."`
	Remove     webhooksRemove     `cmd:"" help:"Remove a webhook and what waits for it."`
	Deliveries webhooksDeliveries `cmd:"" help:"List what was and is to be sent."`
	Replay     webhooksReplay     `cmd:"" help:"Send a delivery again that was delivered or has failed."`
}

type webhooksList struct{ remote }

func (l *webhooksList) Run(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return printList(l.JSON, c.Webhooks(ctx), "ID KINDS INCLUDE URL", func(w schema.Webhook) []any {
		return []any{w.ID, strings.Join(w.Kinds, ","), strings.Join(w.Include, ","), w.URL}
	})
}

type webhooksAdd struct {
	remote
	URL         string   `arg:"" help:"Where events are sent."`
	Kind        []string `short:"k" enum:"question.answered,question.failed,question.cancelled,version.ready,version.failed,plan.better" help:"What it hears of: ${enum}; the ends of jobs when left out; may be repeated."`
	Result      bool     `help:"Send answers with their citations, not ids and links alone."`
	Description string   `help:"For people."`
}

func (a *webhooksAdd) Run(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	n := api.NewWebhook{URL: a.URL, Description: a.Description, Kinds: a.Kind}
	if a.Result {
		n.Include = []string{schema.IncludeResult}
	}
	created, err := c.CreateWebhook(ctx, n)
	if err != nil {
		return err
	}
	return printSecret(created, a.JSON)
}

func printSecret(w api.WebhookSecret, asJSON bool) error {
	if asJSON {
		return printJSON(w)
	}
	fmt.Printf("%s  %s\n%s\nThe secret is not shown again.\n", w.ID, printable(w.URL), w.Secret)
	return nil
}

// webhookArg is the argument of commands on a webhook.
type webhookArg struct {
	remote
	Webhook string `arg:"" help:"The webhook's id."`
}

// resolve returns the client and the webhook's id.
func (o webhookArg) resolve() (*apiclient.Client, uuid.UUID, error) {
	c, err := o.client()
	if err != nil {
		return nil, uuid.Nil, err
	}
	id, err := schema.ParseID("webhook", o.Webhook)
	return c, id, err
}

type webhooksRotate struct{ webhookArg }

func (r *webhooksRotate) Run(ctx context.Context) error {
	c, id, err := r.resolve()
	if err != nil {
		return err
	}
	created, err := c.RotateWebhook(ctx, id)
	if err != nil {
		return err
	}
	return printSecret(created, r.JSON)
}

type webhooksRemove struct{ webhookArg }

func (r *webhooksRemove) Run(ctx context.Context) error {
	c, id, err := r.resolve()
	if err != nil {
		return err
	}
	if err := c.DeleteWebhook(ctx, id); err != nil {
		return err
	}
	if r.JSON {
		return printJSON(map[string]any{"id": id, "removed": true})
	}
	fmt.Println("removed " + id.String())
	return nil
}

type webhooksDeliveries struct {
	webhookArg
	State schema.DeliveryState `help:"Only those that are waiting, delivered or failed." placeholder:"STATE"`
}

func (d *webhooksDeliveries) Run(ctx context.Context) error {
	c, id, err := d.resolve()
	if err != nil {
		return err
	}
	return printList(d.JSON, c.WebhookDeliveries(ctx, id, d.State), "ID STATE ATTEMPTS CREATED KIND SUBJECT PROBLEM", func(x schema.WebhookDelivery) []any {
		return []any{x.ID, x.State, x.Attempts, x.CreatedAt.Local().Format(time.DateTime), x.Kind, x.Subject, x.Problem}
	})
}

type webhooksReplay struct {
	webhookArg
	Delivery string `arg:"" help:"The delivery's id."`
}

func (r *webhooksReplay) Run(ctx context.Context) error {
	c, id, err := r.resolve()
	if err != nil {
		return err
	}
	delivery, err := schema.ParseID("delivery", r.Delivery)
	if err != nil {
		return err
	}
	d, err := c.ReplayDelivery(ctx, id, delivery)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(d)
	}
	fmt.Printf("%s is %s\n", d.ID, d.State)
	return nil
}
