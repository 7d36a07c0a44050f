package schema

import (
	"fmt"
	"strings"
)

// FormatBytes formats a number of bytes for people. 1 KB is 1,024 bytes, as in the settings.
func FormatBytes(n int64) string {
	for unit, name := range [...]string{"GB", "MB", "KB"} {
		if size := int64(1) << (30 - 10*unit); n >= size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(size)), ".0") + " " + name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
