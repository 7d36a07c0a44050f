package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// InWebhook is the path parameter of routes under a webhook.
type InWebhook struct {
	Webhook uuid.UUID `path:"webhook" format:"uuid"`
}

// endsOfJobs are the events of a webhook that names none.
var endsOfJobs = []string{schema.WebhookQuestionAnswered, schema.WebhookQuestionFailed, schema.WebhookQuestionCancelled}

func (s *server) routeWebhooks() {
	tags := []string{"Webhooks"}
	route(s, huma.Operation{OperationID: "create-webhook", Metadata: repeatRefuse.metadata(), Method: http.MethodPost, Path: "/v1/webhooks", Summary: "Have events sent to a server", Tags: tags, DefaultStatus: http.StatusCreated,
		Description: "Deliveries are signed as Standard Webhooks says. The secret is in this reply and nowhere else. " +
			"Admins alone may: a webhook hears of the whole tenant's jobs."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewWebhook }) (*reply[api.WebhookSecret], error) {
			if err := checkWebhookURL(in.Body.URL); err != nil {
				return nil, err
			}
			n := schema.NewWebhook{URL: in.Body.URL, Description: in.Body.Description, Kinds: distinct(in.Body.Kinds), Include: distinct(in.Body.Include)}
			if len(n.Kinds) == 0 {
				n.Kinds = endsOfJobs
			}
			w, secret, err := s.Webhooks.CreateWebhook(ctx, p, n)
			return replyTo(api.WebhookSecret{Webhook: w, Secret: secret}, err)
		})
	route(s, huma.Operation{OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Summary: "List webhooks, newest first", Tags: tags},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[schema.Webhook]], error) {
			items, next, err := s.Webhooks.Webhooks(ctx, p, in.query())
			return list(items, next, err, identity[schema.Webhook])
		})
	route(s, huma.Operation{OperationID: "delete-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{webhook}", Summary: "Remove a webhook and what waits for it", Tags: tags, DefaultStatus: http.StatusNoContent},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *InWebhook) (*struct{}, error) {
			return nil, s.Webhooks.DeleteWebhook(ctx, p, in.Webhook)
		})
	route(s, huma.Operation{OperationID: "rotate-webhook", Metadata: repeatRefuse.metadata(), Method: http.MethodPost, Path: "/v1/webhooks/{webhook}/rotate", Summary: "Make another secret", Tags: tags,
		Description: "For a day deliveries are signed by both, the new one first. The secret is in this reply and nowhere else."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *InWebhook) (*reply[api.WebhookSecret], error) {
			w, secret, err := s.Webhooks.RotateWebhook(ctx, p, in.Webhook)
			return replyTo(api.WebhookSecret{Webhook: w, Secret: secret}, err)
		})
	route(s, huma.Operation{OperationID: "list-webhook-deliveries", Method: http.MethodGet, Path: "/v1/webhooks/{webhook}/deliveries", Summary: "List what was and is to be sent, newest first", Tags: tags,
		Description: "Those that are over are kept for 30 days."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InWebhook
			Paging
			State schema.DeliveryState `query:"state" enum:"waiting,delivered,failed" doc:"Only those in this state."`
		}) (*reply[api.Page[schema.WebhookDelivery]], error) {
			items, next, err := s.Webhooks.WebhookDeliveries(ctx, p, in.Webhook, in.State, in.query())
			return list(items, next, err, identity[schema.WebhookDelivery])
		})
	route(s, huma.Operation{OperationID: "replay-webhook-delivery", Method: http.MethodPost, Path: "/v1/webhooks/{webhook}/deliveries/{delivery}/replay", Summary: "Send one again that is over", Tags: tags,
		Description: "Under the same webhook-id, with all its attempts."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InWebhook
			Delivery uuid.UUID `path:"delivery" format:"uuid"`
		}) (*reply[schema.WebhookDelivery], error) {
			return replyTo(s.Webhooks.ReplayDelivery(ctx, p, in.Webhook, in.Delivery))
		})
}

// checkWebhookURL validates the address of a webhook. Whether it may be sent to is checked on
// sending.
func checkWebhookURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return schema.Invalid("body.url", "is not an http or https URL")
	case u.User != nil:
		return schema.Invalid("body.url", "has a user or password; deliveries are signed instead")
	case u.Fragment != "":
		return schema.Invalid("body.url", "has a fragment, which is never sent")
	}
	return nil
}

func distinct(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
