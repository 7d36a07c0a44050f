package stage

// This file caches what the model pack can do: the operations that it has graphs for, and its
// calibrated thresholds.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// How long a pack's description is cached. If it lacks an operation that is needed it is loaded
// again sooner, since the model server may have got another pack.
const (
	packTTL      = time.Minute
	packRetryTTL = 2 * time.Second
)

// Pack caches the description of the model pack that is served. It is safe for concurrent use.
type Pack struct {
	server interface {
		Info(ctx context.Context) (wire.ModelInfo, error)
	}
	mu     sync.Mutex
	info   wire.ModelInfo
	at     time.Time // of the load; zero: not loaded yet
	second *Pack     // the second encoder's
}

// NewPack returns the Pack of the sources' model server, if there is one.
func NewPack(s retrieval.Sources) *Pack {
	p := &Pack{second: &Pack{}}
	if s.Readers != nil {
		p.server = s.Readers
	}
	if s.Second != nil {
		p.second.server = s.Second
	}
	return p
}

// describe returns the pack's description, and loads it again if it is older than ttl.
func (p *Pack) describe(ctx context.Context, ttl time.Duration) (wire.ModelInfo, error) {
	if p.server == nil {
		return wire.ModelInfo{}, nil
	}
	p.mu.Lock()
	known, at := p.info, p.at
	p.mu.Unlock()
	if !at.IsZero() && time.Since(at) < ttl {
		return known, nil
	}
	// The lock is not held here, so that no caller waits longer than its own deadline. Concurrent
	// callers load the same description.
	info, err := p.server.Info(ctx)
	if err != nil {
		return wire.ModelInfo{}, fmt.Errorf("ask what the model pack can do: %w", err)
	}
	p.mu.Lock()
	p.info, p.at = info, time.Now()
	p.mu.Unlock()
	return info, nil
}

// Describe returns the description of the pack, at most a minute old; empty if there is no model
// server.
func (p *Pack) Describe(ctx context.Context) (wire.ModelInfo, error) {
	return p.describe(ctx, packTTL)
}

// unsupported describes what the pack lacks to serve some operations; "" if it lacks nothing.
func (p *Pack) unsupported(ctx context.Context, needed ...wire.ModelOp) (string, error) {
	for _, ttl := range []time.Duration{packTTL, packRetryTTL} {
		info, err := p.describe(ctx, ttl)
		if err != nil {
			return "", err
		}
		var missing []string
		for _, op := range needed {
			if !slices.Contains(info.Operations, op) {
				missing = append(missing, string(op))
			}
		}
		if len(missing) == 0 {
			return "", nil
		}
		if ttl == packRetryTTL {
			return fmt.Sprintf("%s has no graph for %s", packName(info), strings.Join(missing, " and ")), nil
		}
	}
	return "", nil
}

func packName(info wire.ModelInfo) string {
	if info.Pack == "" {
		return "the model pack"
	}
	return fmt.Sprintf("the model pack %s %s", info.Pack, info.Version)
}

// limit returns the most inputs of one call of an operation; 0: unknown.
func (p *Pack) limit(ctx context.Context, op wire.ModelOp) (int, error) {
	info, err := p.describe(ctx, packTTL)
	return info.Limits[op], err
}

// known returns the share of the question's letters in scripts that an operation's graph was
// trained on.
func (t *Task) known(ctx context.Context, op wire.ModelOp) (float64, error) {
	if op == wire.OpEncode && t.state.Second {
		secondCtx, cancel := context.WithTimeout(ctx, secondTimeout)
		defer cancel()
		info, err := t.pack.second.describe(secondCtx, packTTL)
		if unavailable(err) && ctx.Err() == nil {
			t.secondUnavailable = true
			return 1, nil // units are found by BM25 instead of by vectors
		}
		return text.InScripts(t.query.Text, info.Scripts[op]), err
	}
	info, err := t.pack.describe(ctx, packTTL)
	if err != nil {
		return 0, err
	}
	return text.InScripts(t.query.Text, info.Scripts[op]), nil
}

// isUnknownWords reports whether a model refused a question because it knows no word of it. Then
// there are no scores to rank by.
func isUnknownWords(err error) bool {
	var remote *schema.RemoteError
	return errors.As(err, &remote) && remote.Code == schema.CodeInvalid && remote.Field == "question"
}

const unknownWordsReason = "the model knows no word of the question"

// needs returns an error that names the plan if the pack lacks an operation. For an optional stage
// it returns in skip why the stage is skipped instead.
func (t *Task) needs(ctx context.Context, optional bool, ops ...wire.ModelOp) (skip string, err error) {
	unsupported, err := t.pack.unsupported(ctx, ops...)
	switch {
	case err != nil:
		return "", err
	case unsupported == "":
		return "", nil
	case optional:
		return "skipped: " + unsupported, nil
	}
	return "", schema.Invalid("plan", "%s: use another plan or pack, or give the stage `optional: true`", unsupported)
}

// Threshold is a number, or the name of a threshold that the model pack was calibrated for.
type Threshold struct {
	Value float64
	// Calibrated is the name in the pack's manifest; "" for a number.
	Calibrated string
}

// Threshold reads a number or the word calibrated, which stands for the pack's threshold called by
// the parameter calibrated.
func (p *Parameters) Threshold(name, calibrated string, fallback Threshold, low, high float64) Threshold {
	p.Given[name] = fallback.Value
	if fallback.Calibrated != "" {
		p.Given[name] = "calibrated"
	}
	node := p.values[name]
	switch {
	case node == nil:
		return fallback
	case node.Value == "calibrated":
		p.Take(name)
		p.Given[name] = node.Value
		return Threshold{Calibrated: calibrated}
	}
	return Threshold{Value: p.number(name, fallback.Value, low, high)}
}

// resolve returns the number that a threshold has with the pack that is served.
func (t *Task) resolve(ctx context.Context, name string, x Threshold) (float64, error) {
	if x.Calibrated == "" {
		return x.Value, nil
	}
	info, err := t.pack.describe(ctx, packTTL)
	if err != nil {
		return 0, err
	}
	value, ok := info.Calibrated[x.Calibrated]
	if !ok {
		return 0, schema.Invalid("plan", "%s: calibrated, but %s has no threshold %q, only: %s; give a number",
			name, packName(info), x.Calibrated, strings.Join(slices.Sorted(maps.Keys(info.Calibrated)), ", "))
	}
	return value, nil
}
