package llm

import "math"

// Price is the price of a provider's tokens, in US dollars per million.
type Price struct{ Input, Output float64 }

// Nanos returns the cost of tokens in billionths of a dollar. It is a whole number so that sums are
// exact.
func (p Price) Nanos(input, output int) int64 {
	return int64(math.Round((float64(input)*p.Input + float64(output)*p.Output) * 1000))
}

// Dollars converts billionths of a dollar to dollars.
func Dollars(nanos int64) float64 { return float64(nanos) / 1e9 }

// NanosOf converts dollars to billionths of a dollar.
func NanosOf(dollars float64) int64 { return int64(math.Round(dollars * 1e9)) }
