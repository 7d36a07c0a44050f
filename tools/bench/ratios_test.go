package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.95, 3}, {[]float64{1, 2}, 0.5, 1.5}, {[]float64{4, 1, 3, 2}, 0.5, 2.5}, {[]float64{5, 1, 3}, 1, 5},
		{[]float64{5, 1, 3}, 0, 1}, {[]float64{0, 10, 20, 30, 40}, 0.9, 36},
	} {
		if got := quantile(c.values, c.q); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("quantile %g of %v: %g, not %g", c.q, c.values, got, c.want)
		}
	}
}

func TestRatiosAreOfRounds(t *testing.T) {
	// The machine was half as fast in the second round. The ratios of the rounds do not show it.
	r := ratio{What: "x", Unit: "queries/s", Ours: []float64{300, 150, 330}, Other: []float64{100, 50, 100}, Target: 3}
	if r.value() != 3 || !r.reached() {
		t.Errorf("%g, reached %v", r.value(), r.reached())
	}
	slow := ratio{Ours: []float64{0.4, 2, 0.5}, Target: 0.45, AtMost: true}
	if slow.value() != 0.5 || slow.reached() {
		t.Errorf("%g, reached %v", slow.value(), slow.reached())
	}
	f := findings{Part: "p", Corpus: "c", Ratios: []ratio{r, slow, {What: "free", Ours: []float64{1234.5}}}}
	f.note("size", "%d MB", 12)
	var b strings.Builder
	if err := f.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"300", "100", "3.00 to 3.30 in 3", ">= 3.00", "reached", "<= 0.450", "MISSED", "1234", "12 MB"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"ratio":3,"low":3,"high":3.3,"reached":true`, `"reached":false`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
	if strings.Count(string(data), `"reached"`) != 2 {
		t.Errorf("what has no target cannot reach it: %s", data)
	}
}

func TestARowThatFailsLeavesTheOthers(t *testing.T) {
	f := findings{Part: "p", Corpus: "c"}
	f.row("first", func() error { return errors.New("no such graph") })
	f.row("second", func() error {
		f.compare(ratio{What: "pace", Unit: "texts/s", Ours: []float64{7}})
		return nil
	})
	var b strings.Builder
	if err := f.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "FAILED: no such graph", "pace", "7.00"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if err := f.failure(); err == nil || !strings.Contains(err.Error(), "first") || strings.Contains(err.Error(), "second") {
		t.Errorf("failure %v", err)
	}
	if data, err := json.Marshal(&f); err != nil || !strings.Contains(string(data), "no such graph") {
		t.Errorf("%s, %v", data, err)
	}
	if err := (&findings{}).failure(); err != nil {
		t.Error(err)
	}
}

func TestFunnelSettings(t *testing.T) {
	got, err := parseFunnelSettings([]string{"400/200/40", "80/12/10"})
	if err != nil || len(got) != 2 || got[0] != (funnelSetting{400, 200, 40}) || got[1].String() != "80/12/10" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]string{nil, {"400/200"}, {"400/200/0"}, {"400/x/40"}, {"1/1/1", "1/1/1"}} {
		if _, err := parseFunnelSettings(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func TestSidesTakeTurns(t *testing.T) {
	var order strings.Builder
	turn := func(name string, amount float64) side {
		return side{name, func(context.Context, int) (float64, time.Duration, error) {
			order.WriteString(name)
			return amount, 2 * time.Second, nil
		}}
	}
	rates, err := rounds(t.Context(), 3, turn("a", 10), turn("b", 4))
	if err != nil {
		t.Fatal(err)
	}
	if order.String() != "abbaab" {
		t.Errorf("order %s", order.String())
	}
	if len(rates[0]) != 3 || rates[0][2] != 5 || rates[1][0] != 2 {
		t.Errorf("rates %v", rates)
	}
	if _, err := rounds(t.Context(), 1, turn("none", 0)); err == nil {
		t.Error("nothing was done, and that is a rate")
	}
	failed := errors.New("no")
	if _, err := rounds(t.Context(), 1, queryRounds("x", []int{1}, 2, time.Hour, func(context.Context, int) error { return failed })); !errors.Is(err, failed) {
		t.Errorf("the failure is lost: %v", err)
	}
}

func TestSlowSidesAskFewer(t *testing.T) {
	var asked []int
	s := queryRounds("x", []int{1, 2, 3}, 1, 0, func(_ context.Context, q int) error {
		for begin := time.Now(); time.Since(begin) == 0; { //house:clock a tick of it, however coarse
			_ = begin
		}
		asked = append(asked, q)
		return nil
	})
	for range 4 {
		if n, _, err := s.measure(t.Context(), 0); err != nil || n != 1 {
			t.Fatalf("%g, %v", n, err)
		}
	}
	if len(asked) != 4 || asked[1] != 2 || asked[3] != 1 {
		t.Errorf("asked %v", asked)
	}
}

func TestFiguresHaveThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.001234: "0.00123", 0.0345: "0.0345", 0.7: "0.700", 1.5: "1.50", 12.34: "12.3", 123.4: "123", 98765.4: "98765"} {
		if got := figure(x); got != want {
			t.Errorf("%g: %s, not %s", x, got, want)
		}
	}
}
