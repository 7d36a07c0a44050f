// Package retry reads the Retry-After header of HTTP servers.
package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// After returns the duration in the header Retry-After, which has seconds or a date (RFC 9110,
// 10.2.3). It is zero if there is none.
func After(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 && seconds < 1<<31 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
