package stage

// This file knows what the model pack can do: which operations it has graphs
// for, and the thresholds that were calibrated for it.

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

// A pack's description is kept this long. One that lacks something is asked for
// again sooner: a server with a better pack may have come.
const (
	packFresh   = time.Minute
	packLacking = 2 * time.Second
)

// Pack is the model pack that the server serves, as it was described last. It is
// safe for concurrent use.
type Pack struct {
	server interface {
		Info(ctx context.Context) (wire.ModelInfo, error)
	}
	mu     sync.Mutex
	info   wire.ModelInfo
	at     time.Time // zero: never asked
	second *Pack     // of the second encoder
}

// NewPack makes the description of the pack that these sources read with, if any.
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

// describe returns the pack's description; old enough, it is asked for anew.
func (p *Pack) describe(ctx context.Context, fresh time.Duration) (wire.ModelInfo, error) {
	if p.server == nil {
		return wire.ModelInfo{}, nil
	}
	p.mu.Lock()
	known, at := p.info, p.at
	p.mu.Unlock()
	if !at.IsZero() && time.Since(at) < fresh {
		return known, nil
	}
	// Without the lock: whoever asks waits no longer than its own deadline, and
	// two that ask at once get the same answer.
	info, err := p.server.Info(ctx)
	if err != nil {
		return wire.ModelInfo{}, fmt.Errorf("ask what the model pack can do: %w", err)
	}
	p.mu.Lock()
	p.info, p.at = info, time.Now()
	p.mu.Unlock()
	return info, nil
}

// Describe returns the description of the pack as it was a minute ago at most; it is empty when no
// server has one.
func (p *Pack) Describe(ctx context.Context) (wire.ModelInfo, error) {
	return p.describe(ctx, packFresh)
}

// lacks says what the pack lacks to serve some operations, "" when it lacks
// nothing.
func (p *Pack) lacks(ctx context.Context, needed ...wire.ModelOp) (string, error) {
	for _, fresh := range []time.Duration{packFresh, packLacking} {
		info, err := p.describe(ctx, fresh)
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
		if fresh == packLacking {
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

// limit is how many things an operation takes at once; 0: the pack does not say.
func (p *Pack) limit(ctx context.Context, op wire.ModelOp) (int, error) {
	info, err := p.describe(ctx, packFresh)
	return info.Limits[op], err
}

// known is the share of the question's letters that are of scripts which the
// graph of an operation has learnt.
func (t *Task) known(ctx context.Context, op wire.ModelOp) (float64, error) {
	if op == wire.OpEncode && t.state.Second {
		asking, cancel := context.WithTimeout(ctx, secondTime)
		defer cancel()
		info, err := t.pack.second.describe(asking, packFresh)
		if unavailable(err) && ctx.Err() == nil {
			t.secondUnavailable = true
			return 1, nil // words stand in for the vectors
		}
		return text.InScripts(t.query.Text, info.Scripts[op]), err
	}
	info, err := t.pack.describe(ctx, packFresh)
	if err != nil {
		return 0, err
	}
	return text.InScripts(t.query.Text, info.Scripts[op]), nil
}

// noWord reports whether a model refused a question because it has no word to
// read texts for: then there is nothing to rank by.
func noWord(err error) bool {
	var remote *schema.RemoteError
	return errors.As(err, &remote) && remote.Code == schema.CodeInvalid && remote.Field == "question"
}

const noWordWhy = "the model knows no word of the question"

// needs fails, naming the plan, when the pack lacks an operation. An optional
// stage is skipped instead: skip says why.
func (t *Task) needs(ctx context.Context, optional bool, ops ...wire.ModelOp) (skip string, err error) {
	lacks, err := t.pack.lacks(ctx, ops...)
	switch {
	case err != nil:
		return "", err
	case lacks == "":
		return "", nil
	case optional:
		return "skipped: " + lacks, nil
	}
	return "", schema.Invalid("plan", "%s: take another plan or pack, or give the stage `optional: true`", lacks)
}

// Threshold is a setting that is a number, or the equivalent that the model pack
// was calibrated to.
type Threshold struct {
	Value float64
	// calibrated is the name in the pack's manifest; "" for a number.
	Calibrated string
}

// Threshold reads a number, or the word calibrated, which means what the pack
// has under that name.
func (p *Parameters) Threshold(name, calibrated string, otherwise Threshold, least, most float64) Threshold {
	p.Given[name] = otherwise.Value
	if otherwise.Calibrated != "" {
		p.Given[name] = "calibrated"
	}
	node := p.values[name]
	switch {
	case node == nil:
		return otherwise
	case node.Value == "calibrated":
		p.Take(name)
		p.Given[name] = node.Value
		return Threshold{Calibrated: calibrated}
	}
	return Threshold{Value: p.number(name, otherwise.Value, least, most)}
}

// resolve is the number that a threshold means with the pack that is served.
func (t *Task) resolve(ctx context.Context, name string, x Threshold) (float64, error) {
	if x.Calibrated == "" {
		return x.Value, nil
	}
	info, err := t.pack.describe(ctx, packFresh)
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
