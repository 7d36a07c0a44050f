package llm

import "math"

// Price is what a provider's tokens cost, in US dollars per million.
type Price struct{ Input, Output float64 }

// Nanos is what tokens cost, in billionths of a dollar: whole numbers, so that
// sums are exact.
func (p Price) Nanos(input, output int) int64 {
	return int64(math.Round((float64(input)*p.Input + float64(output)*p.Output) * 1000))
}

// Dollars are nanos as a number of dollars, and NanosOf the way back.
func Dollars(nanos int64) float64 { return float64(nanos) / 1e9 }

// NanosOf are dollars in billionths.
func NanosOf(dollars float64) int64 { return int64(math.Round(dollars * 1e9)) }
