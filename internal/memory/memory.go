// Package memory says how much memory this process may use.
package memory

import "github.com/KimMachineGun/automemlimit/memlimit"

// Limit returns the bytes that this process may use: what the machine has, or the limit of its
// cgroup if that is less. It returns 0 if neither is known.
func Limit() int64 {
	var limit uint64
	for _, read := range []func() (uint64, error){memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := read(); err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return int64(min(limit, 1<<62))
}

// Share returns one part in parts of Limit, at least least bytes and at most most.
func Share(parts, least, most int64) int64 { return min(max(Limit()/parts, least), most) }
