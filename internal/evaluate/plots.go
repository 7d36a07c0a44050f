package evaluate

// This file draws the report's plots as SVG. Colours are classes, from c0, so that the page's style
// sets them for light and dark mode.

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sizes in the units of the drawings, which scale with the page.
const (
	plotWidth  = 680.0
	labelWidth = 150.0
	rowHeight  = 26.0
	plotHeight = 260.0
	axisHeight = 34.0
	tints      = 12 // classes c0 to c11
)

// svg is a drawing that is being written.
type svg struct{ strings.Builder }

func newSVG(height float64, label string) *svg {
	s := &svg{}
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, height, html.EscapeString(label))
	return s
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

func (s *svg) text(class string, x, y float64, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(text))
}

// dot draws a point with a tooltip.
func (s *svg) dot(tint int, x, y float64, tip string) {
	fmt.Fprintf(s, `<circle class="c%d" cx="%.1f" cy="%.1f" r="5"><title>%s</title></circle>`, tint%tints, x, y, html.EscapeString(tip))
}

func (s *svg) rect(tint int, x, y, width, height float64, tip string) {
	fmt.Fprintf(s, `<rect class="c%d" x="%.1f" y="%.1f" width="%.2f" height="%.1f"><title>%s</title></rect>`, tint%tints, x, y, width, height, html.EscapeString(tip))
}

func (s *svg) path(tint int, points [][2]float64, tip string) {
	var d strings.Builder
	for i, p := range points {
		fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], p[0], p[1])
	}
	fmt.Fprintf(s, `<path class="l%d" d="%s"><title>%s</title></path>`, tint%tints, d.String(), html.EscapeString(tip))
}

// done closes the drawing. All text in it is escaped already.
func (s *svg) done() template.HTML { return template.HTML(s.String() + "</svg>") }

// scale maps values to positions along an axis.
type scale struct {
	low, high float64 // values
	from, to  float64 // positions
}

func (s scale) at(v float64) float64 {
	if s.high == s.low {
		return s.from
	}
	return s.from + (v-s.low)/(s.high-s.low)*(s.to-s.from)
}

// round widens an interval of values to multiples of a step, which is 1, 2 or 5 times a power of
// ten.
func round(low, high float64) (lowest, highest, step float64) {
	if high <= low {
		high = low + 1
	}
	rough := (high - low) / 4
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step = 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough {
			step = m * power
			break
		}
	}
	return math.Floor(low/step+1e-9) * step, math.Ceil(high/step-1e-9) * step, step
}

// across draws a horizontal axis below y with marks, and returns its scale.
func (s *svg) across(low, high, top, y float64) scale {
	low, high, step := round(low, high)
	x := scale{low, high, labelWidth, plotWidth - 30}
	for i := range int(math.Round((high-low)/step)) + 1 {
		v := low + float64(i)*step
		s.line("grid", x.at(v), top, x.at(v), y)
		s.text("mark mid", x.at(v), y+16, short(v, step))
	}
	return x
}

// up draws a vertical axis at left with marks, and returns its scale.
func (s *svg) up(low, high, left, top float64) scale {
	low, high, step := round(low, high)
	y := scale{low, high, plotHeight, top}
	for i := range int(math.Round((high-low)/step)) + 1 {
		v := low + float64(i)*step
		s.line("grid", left, y.at(v), plotWidth-30, y.at(v))
		s.text("mark end", left-6, y.at(v)+4, short(v, step))
	}
	return y
}

// short formats a value with the digits that a step needs.
func short(v, step float64) string {
	return strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(step)+1e-9))), 64)
}

// intervals draws one metric of all plans with its 95 % intervals.
func intervals(s Summary, metric string) template.HTML {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range s.Plans {
		low, high = min(low, p.Intervals[metric].Low), max(high, p.Intervals[metric].High)
	}
	bottom := 6 + rowHeight*float64(len(s.Plans))
	g := newSVG(bottom+axisHeight, metric+" of each plan")
	x := g.across(low, high, 2, bottom)
	for i, p := range s.Plans {
		y := 6 + rowHeight*(float64(i)+0.5)
		v, in := p.Metrics[metric], p.Intervals[metric]
		g.text("name", labelWidth-10, y+4, p.Plan)
		g.line("whisker", x.at(in.Low), y, x.at(in.High), y)
		g.dot(i, x.at(v), y, fmt.Sprintf("%s: %s %.4f, 95 %% interval %.4f to %.4f", p.Plan, metric, v, in.Low, in.High))
	}
	return g.done()
}

// hits draws hit@k against k, on a logarithmic axis.
func (r *Results) hits() template.HTML {
	ks := []int{1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100}
	shares := make([][]float64, len(r.plans))
	low := 1.0
	for i, p := range r.plans {
		for _, k := range ks {
			hit, all := 0, 0
			for _, rank := range p.first {
				if rank > 0 && rank <= k {
					hit++
				}
				if rank != unranked {
					all++
				}
			}
			shares[i] = append(shares[i], float64(hit)/float64(max(1, all)))
		}
		low = min(low, slices.Min(shares[i]))
	}
	g := newSVG(plotHeight+axisHeight, "share of questions with a relevant document among the first k")
	x := scale{0, 2, 50, plotWidth - 30}
	y := g.up(low, 1, x.from, 10)
	for _, k := range []int{1, 3, 10, 30, 100} {
		g.text("mark mid", x.at(math.Log10(float64(k))), plotHeight+16, strconv.Itoa(k))
	}
	for i, p := range r.plans {
		points := make([][2]float64, len(ks))
		for j, k := range ks {
			points[j] = [2]float64{x.at(math.Log10(float64(k))), y.at(shares[i][j])}
		}
		g.path(i, points, p.name)
		for j, k := range ks {
			if k == 1 || k == 10 || k == 100 {
				g.dot(i, points[j][0], points[j][1], fmt.Sprintf("%s: hit@%d %.4f", p.name, k, shares[i][j]))
			}
		}
	}
	return g.done()
}

// stagePlot draws the mean time of each stage of each plan, in milliseconds.
func stagePlot(s Summary, stages []string) template.HTML {
	high := 0.0
	for _, p := range s.Plans {
		high = max(high, p.Millis.Mean)
	}
	bottom := 6 + rowHeight*float64(len(s.Plans))
	g := newSVG(bottom+axisHeight, "mean milliseconds of each stage of each plan")
	x := g.across(0, high, 2, bottom)
	for i, p := range s.Plans {
		y, at := 6+rowHeight*float64(i), 0.0
		g.text("name", labelWidth-10, y+rowHeight/2+4, p.Plan)
		for _, stage := range p.Stages {
			g.rect(slices.Index(stages, stage.Stage), x.at(at), y+4, x.at(at+stage.Mean)-x.at(at), rowHeight-8,
				fmt.Sprintf("%s, %s: %.2f ms", p.Plan, stage.Stage, stage.Mean))
			at += stage.Mean
		}
		g.line("whisker", x.at(p.Millis.Mean), y+2, x.at(p.Millis.Mean), y+rowHeight-2)
	}
	return g.done()
}

// prices draws quality against time.
func prices(s Summary, metric string) template.HTML {
	return against(s, metric, "milliseconds", "p50 %.1f ms", func(p PlanSummary) float64 { return p.Millis.P50 })
}

// tokenPlot draws quality against the tokens that answers took.
func tokenPlot(s Summary, metric string) template.HTML {
	return against(s, metric, "input tokens", "%.0f input tokens", func(p PlanSummary) float64 { return p.Metrics["input_tokens"] })
}

// against draws a metric against a cost, whose tooltip is formatted by tip.
func against(s Summary, metric, unit, tip string, cost func(PlanSummary) float64) template.HTML {
	low, high, maxCount := 1.0, 0.0, 0.0
	for _, p := range s.Plans {
		low, high, maxCount = min(low, p.Metrics[metric]), max(high, p.Metrics[metric]), max(maxCount, cost(p))
	}
	g := newSVG(plotHeight+axisHeight, metric+" against "+unit)
	x := g.across(0, maxCount, 14, plotHeight)
	y := g.up(low, high, x.from, 14)
	for i, p := range s.Plans {
		px, py := x.at(cost(p)), y.at(p.Metrics[metric])
		g.dot(i, px, py, fmt.Sprintf("%s: %s %.4f, "+tip, p.Plan, metric, p.Metrics[metric], cost(p)))
		class, dx := "name start", 9.0
		if px > plotWidth-120 {
			class, dx = "name", -9
		}
		g.text(class, px+dx, py+4, p.Plan)
	}
	return g.done()
}
