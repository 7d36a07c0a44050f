package batch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item has a length in tokens, and a pointer for its result.
type item struct {
	tokens int
	name   string
	out    *int
}

// recorder is the model: it records the batches that it runs, and takes the configured time for
// each.
type recorder struct {
	mu      sync.Mutex
	batches [][]item
	takes   time.Duration
	fail    func(item) error
}

func (r *recorder) run(ctx context.Context, batch []item) error {
	r.mu.Lock()
	r.batches = append(r.batches, slices.Clone(batch))
	r.mu.Unlock()
	if r.takes > 0 {
		select {
		case <-time.After(r.takes): //house:clock of the bubble that the tests run in
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, i := range batch {
		if r.fail != nil {
			if err := r.fail(i); err != nil {
				return err
			}
		}
		if i.out != nil {
			*i.out += i.tokens
		}
	}
	return nil
}

func (r *recorder) names() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		name := ""
		for _, i := range b {
			name += i.name
		}
		out = append(out, name)
	}
	return out
}

func queue(r *recorder, change func(*Options)) *Queue[item] { return queueOf(NewPool(1), r, change) }

func queueOf(p *Pool, r *recorder, change func(*Options)) *Queue[item] {
	o := Options{Graph: "test", MaxItems: 4, MaxCells: 1000, Wait: 5 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	return New(p, o, func(i item) Size { return Tokens(i.tokens) }, r.run)
}

// do calls Do in a goroutine and sends its error to the channel.
func do(q *Queue[item], ctx context.Context, lane wire.Lane, items ...item) <-chan error {
	return doAs(q, ctx, Caller{Lane: lane}, items...)
}

func doAs(q *Queue[item], ctx context.Context, caller Caller, items ...item) <-chan error {
	done := make(chan error, 1)
	go func() { done <- q.Do(ctx, caller, items) }()
	synctest.Wait()
	return done
}

func TestRequestsShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := queue(r, nil)
		defer q.pool.Close()
		started := time.Now()
		a := do(q, t.Context(), wire.LaneBulk, item{3, "a", nil})
		b := do(q, t.Context(), wire.LaneBulk, item{3, "b", nil}, item{3, "c", nil})
		if err := errors.Join(<-a, <-b); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != 5*time.Millisecond {
			t.Errorf("waited %v, want 5ms", took)
		}
		if got := r.names(); !slices.Equal(got, []string{"abc"}) {
			t.Errorf("batches %v, want one", got)
		}
	})
}

func TestAFullBatchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := queue(r, nil)
		defer q.pool.Close()
		started := time.Now()
		if err := q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, []item{{3, "a", nil}, {3, "b", nil}, {3, "c", nil}, {3, "d", nil}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("waited %v", took)
		}
	})
}

func TestInteractiveGoesBeforeBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 100 * time.Millisecond}
		q := queue(r, func(o *Options) { o.MaxItems = 1 })
		defer q.pool.Close()
		first := do(q, t.Context(), wire.LaneBulk, item{3, "a", nil})
		bulk := do(q, t.Context(), wire.LaneBulk, item{3, "b", nil}, item{3, "c", nil})
		urgent := do(q, t.Context(), wire.LaneInteractive, item{3, "U", nil})
		if err := errors.Join(<-first, <-urgent, <-bulk); err != nil {
			t.Fatal(err)
		}
		if got := r.names(); !slices.Equal(got, []string{"a", "U", "b", "c"}) {
			t.Errorf("order %v", got)
		}
	})
}

// TestBulkLeavesAWorkerFree tests the time after an interactive request.
func TestBulkLeavesAWorkerFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 100 * time.Millisecond}
		q := queueOf(NewPool(2), r, func(o *Options) { o.MaxItems = 1 })
		defer q.pool.Close()
		bulk := func() time.Duration {
			t.Helper()
			started := time.Now()
			if err := q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, []item{{3, "a", nil}, {3, "b", nil}, {3, "c", nil}}); err != nil {
				t.Fatal(err)
			}
			return time.Since(started)
		}
		if took := bulk(); took != 200*time.Millisecond {
			t.Errorf("bulk alone took %v, want 200ms on two workers", took)
		}
		if err := q.Do(t.Context(), Caller{Lane: wire.LaneInteractive}, []item{{3, "U", nil}}); err != nil {
			t.Fatal(err)
		}
		if took := bulk(); took != 300*time.Millisecond {
			t.Errorf("bulk took %v after an interactive request, want 300ms on one worker", took)
		}
		time.Sleep(fairness.Recent) // of the bubble's clock
		if took := bulk(); took != 200*time.Millisecond {
			t.Errorf("bulk took %v a while later, want 200ms", took)
		}
	})
}

func TestExpiredRequestsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 100 * time.Millisecond}
		q := queue(r, func(o *Options) { o.MaxItems = 1 })
		defer q.pool.Close()
		first := do(q, t.Context(), wire.LaneBulk, item{3, "a", nil})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		late := do(q, ctx, wire.LaneBulk, item{3, "L", nil})
		last := do(q, t.Context(), wire.LaneBulk, item{3, "b", nil})
		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the late request got %v", err)
		}
		if err := errors.Join(<-first, <-last); err != nil {
			t.Fatal(err)
		}
		if got := r.names(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("ran %v", got)
		}
	})
}

func TestABadItemFailsItsRequestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad item")
		r := &recorder{fail: func(i item) error {
			if i.name == "X" {
				return bad
			}
			return nil
		}}
		q := queue(r, nil)
		defer q.pool.Close()
		outs := make([]int, 3)
		good := do(q, t.Context(), wire.LaneBulk, item{3, "a", &outs[0]}, item{3, "b", &outs[1]})
		worse := do(q, t.Context(), wire.LaneBulk, item{3, "X", nil})
		other := do(q, t.Context(), wire.LaneBulk, item{3, "c", &outs[2]})
		if err := <-worse; !errors.Is(err, bad) {
			t.Errorf("the bad request got %v", err)
		}
		if err := errors.Join(<-good, <-other); err != nil {
			t.Errorf("its neighbours got %v", err)
		}
		for i, out := range outs {
			if out == 0 {
				t.Errorf("item %d has no result", i)
			}
		}
	})
}

func TestCloseFailsWaitingItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: time.Hour}
		q := queue(r, func(o *Options) { o.MaxItems = 1 })
		running := do(q, t.Context(), wire.LaneBulk, item{3, "a", nil})
		waiting := do(q, t.Context(), wire.LaneBulk, item{3, "b", nil})
		q.pool.Close()
		for _, err := range []error{<-running, <-waiting, q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, []item{{3, "c", nil}})} {
			if !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("got %v, want unavailable", err)
			}
		}
	})
}

func TestUnknownLaneIsInvalid(t *testing.T) {
	q := queue(&recorder{}, nil)
	defer q.pool.Close()
	if err := q.Do(t.Context(), Caller{Lane: "express"}, []item{{1, "", nil}}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestPadding: for a backlog of sentences and sections of all lengths, at most a twentieth of the
// cells are padding, every item runs once, and no batch exceeds its limits.
func TestPadding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: time.Millisecond}
		q := queue(r, func(o *Options) { o.MaxItems, o.MaxCells = 512, 8192 })
		defer q.pool.Close()
		random := rand.New(rand.NewPCG(1, 2))
		outs := make([]int, 6000)
		var done []<-chan error
		for from := 0; from < len(outs); from += 500 {
			var items []item
			for i := from; i < from+500; i++ {
				tokens := 1 + random.IntN(60)
				if i%10 == 0 {
					tokens = 100 + random.IntN(400)
				}
				items = append(items, item{tokens, "", &outs[i]})
			}
			done = append(done, do(q, t.Context(), wire.LaneBulk, items...))
		}
		for _, d := range done {
			if err := <-d; err != nil {
				t.Fatal(err)
			}
		}
		sum, cells, ran := 0, 0, 0
		for _, b := range r.batches {
			longest := 0
			for _, i := range b {
				sum += i.tokens
				longest = max(longest, i.tokens)
				if *i.out != i.tokens {
					t.Fatalf("an item of %d tokens has result %d", i.tokens, *i.out)
				}
			}
			ran += len(b)
			cells += longest * len(b)
			if len(b) > 512 || longest*len(b) > 8192 {
				t.Errorf("a batch of %d items of up to %d tokens", len(b), longest)
			}
		}
		padding := float64(cells-sum) / float64(cells)
		t.Logf("%d items in %d batches, %.1f %% padding", ran, len(r.batches), 100*padding)
		if ran != len(outs) || padding > 0.05 {
			t.Errorf("%d of %d items ran, %.1f %% padding", ran, len(outs), 100*padding)
		}
	})
}

func TestManyCallersUnderRace(t *testing.T) {
	r := &recorder{}
	q := queueOf(NewPool(4), r, func(o *Options) { o.MaxItems, o.Wait = 32, time.Microsecond })
	var callers sync.WaitGroup
	for c := range 20 {
		callers.Go(func() {
			for range 50 {
				outs := make([]int, 7)
				items := make([]item, len(outs))
				for i := range items {
					items[i] = item{1 + (c+i)%30, "", &outs[i]}
				}
				lane := wire.LaneBulk
				if c%3 == 0 {
					lane = wire.LaneInteractive
				}
				if err := q.Do(context.Background(), Caller{Lane: lane}, items); err != nil {
					t.Error(err)
					return
				}
				for i := range outs {
					if outs[i] != items[i].tokens {
						t.Errorf("result %d, want %d", outs[i], items[i].tokens)
					}
				}
			}
		})
	}
	callers.Wait()
	q.pool.Close()
}
