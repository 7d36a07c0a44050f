package httpapi

// This file says how many uploads may be under way, of one key and of this process: each takes disk, and time of the
// database.

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

const (
	keyUploads     = 16
	keyBytes       = 1 << 30
	processUploads = 64
	processBytes   = 4 << 30
)

// uploadQuota counts uploads and their bytes.
type uploadQuota struct {
	mu    sync.Mutex
	all   hand
	byKey map[uuid.UUID]hand
}

// hand is what is under way.
type hand struct {
	uploads int
	bytes   int64
}

func (h hand) has(n int, bytes int64) bool { return h.uploads >= n || h.uploads > 0 && h.bytes > bytes }

func newIntake() *uploadQuota { return &uploadQuota{byKey: map[uuid.UUID]hand{}} }

// enter lets an upload of so many bytes in until leave is called. A key's own excess is told apart from that of all.
func (i *uploadQuota) enter(key uuid.UUID, bytes int64) (leave func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	own := i.byKey[key]
	again := http.Header{"Retry-After": {"1"}}
	if (hand{own.uploads, own.bytes + bytes}).has(keyUploads, keyBytes) {
		return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests(fmt.Sprintf(
			"%d uploads with %s of this key are under way, with this one more than may be; try again when one has ended",
			own.uploads, schema.FormatBytes(own.bytes))), again)
	}
	if (hand{i.all.uploads, i.all.bytes + bytes}).has(processUploads, processBytes) {
		return nil, huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			"as many uploads are under way as this server takes; try again when one has ended"), again)
	}
	i.add(key, 1, bytes)
	return sync.OnceFunc(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.add(key, -1, -bytes)
	}), nil
}

func (i *uploadQuota) add(key uuid.UUID, n int, bytes int64) {
	own := i.byKey[key]
	own.uploads, own.bytes = own.uploads+n, own.bytes+bytes
	i.all.uploads, i.all.bytes = i.all.uploads+n, i.all.bytes+bytes
	if i.byKey[key] = own; own.uploads == 0 {
		delete(i.byKey, key)
	}
}
