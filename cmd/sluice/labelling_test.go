package main

import (
	"testing"
	"testing/synctest"
)

func TestCallsThatComeBackAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := (&labelFlags{Calls: 4, Parallel: 2}).budget()
		if calls, _ := b.reserve(callsAtOnce); calls != 4 {
			t.Fatalf("took %d calls of 4", calls)
		}
		took := make(chan int)
		go func() {
			calls, _ := b.reserve(callsAtOnce)
			took <- calls
		}()
		synctest.Wait() // the other one has nothing to reserve yet
		b.settle(3, 0)
		if calls := <-took; calls != 3 {
			t.Errorf("took %d of the 3 calls that came back", calls)
		}
		b.settle(0, 0)
		if calls, _ := b.reserve(callsAtOnce); calls != 0 {
			t.Errorf("took %d calls of none", calls)
		}
	})
}

func TestADryRunHasNoCalls(t *testing.T) {
	if calls, _ := (&labelFlags{Calls: 9, Parallel: 2, DryRun: true}).budget().reserve(callsAtOnce); calls != 0 {
		t.Errorf("a dry run took %d calls", calls)
	}
}
