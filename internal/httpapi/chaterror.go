package httpapi

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema/api"
)

// chatKey marks operations whose problems also have the format of OpenAI's errors.
const chatKey = "chat"

// problemOfChat is a problem with the member error that OpenAI's clients read.
type problemOfChat struct {
	*huma.ErrorModel
	Error api.ChatError `json:"error"`
}

// chatErrors is a transformer that adds the member error.
func chatErrors(ctx huma.Context, _ string, v any) (any, error) {
	if m, is := v.(*huma.ErrorModel); is && ctx.Operation().Metadata[chatKey] == true {
		return chatProblem(m), nil
	}
	return v, nil
}

// kinds are OpenAI's types and codes of errors, by HTTP status.
var kinds = map[int]struct{ kind, code string }{
	http.StatusUnauthorized:          {"authentication_error", "invalid_api_key"},
	http.StatusForbidden:             {"permission_error", "insufficient_permissions"},
	http.StatusNotFound:              {"invalid_request_error", "model_not_found"},
	http.StatusTooManyRequests:       {"rate_limit_error", "rate_limit_exceeded"},
	http.StatusRequestEntityTooLarge: {"invalid_request_error", "request_too_large"},
	http.StatusUnprocessableEntity:   {"invalid_request_error", "invalid_value"},
}

func chatProblem(m *huma.ErrorModel) problemOfChat {
	out := api.ChatError{Message: m.Detail, Type: "invalid_request_error"}
	if m.Status >= http.StatusInternalServerError {
		out.Type = "server_error"
	}
	if known, is := kinds[m.Status]; is {
		out.Type, out.Code = known.kind, &known.code
	}
	for _, e := range m.Errors {
		param, inBody := strings.CutPrefix(e.Location, "body.")
		if !inBody {
			continue
		}
		if out.Param = &param; !strings.Contains(out.Message, e.Message) || !strings.Contains(out.Message, param) {
			out.Message = param + ": " + e.Message
		}
		switch {
		case strings.Contains(e.Message, "not supported"):
			out.Code = new("unsupported_parameter")
		case e.Message == "unexpected property":
			out.Code = new("unknown_parameter")
		}
		break
	}
	return problemOfChat{m, out}
}
