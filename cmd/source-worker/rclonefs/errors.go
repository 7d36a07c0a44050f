package rclonefs

// The meaning of backends' errors. Each backend has its own types; rclone has common errors only
// for files and folders that do not exist.

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	smb2 "github.com/cloudsoda/go-smb2"
	"github.com/dropbox/dropbox-sdk-go-unofficial/v6/dropbox/auth"
	boxapi "github.com/rclone/rclone/backend/box/api"
	onedriveapi "github.com/rclone/rclone/backend/onedrive/api"
	webdavapi "github.com/rclone/rclone/backend/webdav/api"
	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/fserrors"
	"github.com/rclone/rclone/lib/pacer"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/sluice-rag/sluice/cmd/source-worker/retry"
	"github.com/sluice-rag/sluice/internal/source"
)

// errForbidden is the error of a service that accepts the credentials but denies access. If it
// concerns the whole source, it acts as source.ErrRefused.
var errForbidden = fmt.Errorf("access is denied: %w", source.ErrRefused)

// isNotFound reports whether an error says that there is no such file.
func isNotFound(err error) bool {
	return errors.Is(err, fs.ErrorObjectNotFound) || errors.Is(err, fs.ErrorDirNotFound) || errors.Is(err, fs.ErrorIsDir) ||
		errors.Is(err, fs.ErrorNotAFile) || errors.Is(err, iofs.ErrNotExist) || status(err).code == http.StatusNotFound
}

// failure converts an error to one of package source if one fits.
func (c *connector) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.proxy != nil {
		if private := c.proxy.Refused(); private != nil {
			return private
		}
	}
	if after := fserrors.RetryAfterErrorTime(err); !after.IsZero() {
		return &source.RateLimitError{After: max(time.Until(after), 0)}
	}
	if wait, ok := pacer.IsRetryAfter(err); ok {
		return &source.RateLimitError{After: max(wait, 0)}
	}
	reply := status(err)
	switch {
	case reply.code == http.StatusTooManyRequests, reply.throttled:
		return &source.RateLimitError{After: reply.after}
	case reply.code == http.StatusUnauthorized, isTokenError(err), isSSHAuthError(err):
		return fmt.Errorf("%w: %w", source.ErrRefused, err)
	case reply.code == http.StatusForbidden, errors.Is(err, iofs.ErrPermission), errors.Is(err, fs.ErrorPermissionDenied):
		return fmt.Errorf("%w: %w", errForbidden, err)
	case strings.Contains(err.Error(), "host key"):
		return &source.FieldError{Field: "host_key", Reason: err.Error()}
	}
	return err
}

// reply is what an error says about the reply of a service.
type reply struct {
	code      int
	throttled bool // it asks for fewer requests, with another status than 429
	after     time.Duration
}

// status extracts a reply from an error.
func status(err error) reply {
	var (
		dav       *webdavapi.Error
		aws       *smithyhttp.ResponseError
		google    *googleapi.Error
		azure     *azcore.ResponseError
		box       *boxapi.Error
		graph     *onedriveapi.Error
		throttled auth.RateLimitAPIError
		deny      auth.AuthAPIError
		smb       *smb2.ResponseError
	)
	switch {
	case errors.As(err, &dav):
		return reply{code: dav.StatusCode}
	case errors.As(err, &aws):
		r := reply{code: aws.HTTPStatusCode(), throttled: strings.Contains(err.Error(), "SlowDown")}
		if aws.Response != nil {
			r.after = retry.After(aws.Response.Header)
		}
		return r
	case errors.As(err, &google):
		return googleReply(google)
	case errors.As(err, &azure):
		r := reply{code: azure.StatusCode, throttled: azure.ErrorCode == "ServerBusy"}
		if azure.RawResponse != nil {
			r.after = retry.After(azure.RawResponse.Header)
		}
		return r
	case errors.As(err, &box):
		return reply{code: box.Status}
	case errors.As(err, &graph):
		return graphReply(graph)
	case errors.As(err, &throttled):
		r := reply{throttled: true}
		if throttled.RateLimitError != nil {
			r.after = time.Duration(throttled.RateLimitError.RetryAfter) * time.Second
		}
		return r
	case errors.As(err, &deny):
		return reply{code: http.StatusUnauthorized}
	case errors.As(err, &smb):
		return smbReply(smb.Code)
	}
	return reply{}
}

// googleReply interprets Google's error messages. When a daily quota is used up, the request is not
// repeated after a second.
func googleReply(err *googleapi.Error) reply {
	r, text := reply{code: err.Code, after: retry.After(err.Header)}, strings.ToLower(err.Error())
	if r.code == http.StatusForbidden && strings.Contains(text, "dailylimitexceeded") {
		r.code = http.StatusTooManyRequests
	}
	r.throttled = (r.code == http.StatusForbidden || r.code == http.StatusTooManyRequests) && strings.Contains(text, "ratelimitexceeded")
	return r
}

// graphReply interprets Microsoft's error codes.
func graphReply(err *onedriveapi.Error) reply {
	switch code := err.ErrorInfo.Code; {
	case code == "InvalidAuthenticationToken", code == "unauthenticated", strings.HasPrefix(code, "401"):
		return reply{code: http.StatusUnauthorized}
	case code == "accessDenied", strings.HasPrefix(code, "403"):
		return reply{code: http.StatusForbidden}
	case code == "activityLimitReached", strings.HasPrefix(code, "429"):
		return reply{throttled: true}
	case code == "itemNotFound", strings.HasPrefix(code, "404"):
		return reply{code: http.StatusNotFound}
	}
	return reply{}
}

// smbReply interprets NT status codes (MS-ERREF 2.3.1).
func smbReply(code uint32) reply {
	switch code {
	case 0xC000006D, 0xC000006E, 0xC0000064, 0xC000006A, 0xC0000071, 0xC0000072, 0xC0000234: // log-on failures
		return reply{code: http.StatusUnauthorized}
	case 0xC0000022: // STATUS_ACCESS_DENIED
		return reply{code: http.StatusForbidden}
	case 0xC0000034, 0xC000003A, 0xC00000CC: // no such name, path, share
		return reply{code: http.StatusNotFound}
	}
	return reply{}
}

// isTokenError reports whether a token could not be obtained or renewed.
func isTokenError(err error) bool {
	var token *oauth2.RetrieveError
	if errors.As(err, &token) {
		return token.Response == nil || token.Response.StatusCode < 500 && token.Response.StatusCode != http.StatusTooManyRequests
	}
	return false
}

// isSSHAuthError reports whether signing in failed, for which x/crypto/ssh has no error type.
func isSSHAuthError(err error) bool {
	return strings.Contains(err.Error(), "ssh: unable to authenticate")
}
