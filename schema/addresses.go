package schema

import (
	"net/netip"
	"slices"
	"strings"
)

// ParseRanges parses addresses and ranges of addresses, such as 10.1.0.0/16.
func ParseRanges(field string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, Invalid(field, "%q is not a range of addresses, as 10.1.0.0/16", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// InRanges reports whether any of the ranges contains an address. None contains the zero Addr.
func InRanges(at netip.Addr, ranges []netip.Prefix) bool {
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(ranges, func(of netip.Prefix) bool { return of.Contains(at) })
}
