package schema

// Box is a rectangle on a page, in points (1/72 inch) of the page's own coordinates, as in PDF: the
// origin is at the lower left, and y grows upwards. For an image, which has no points, the unit is
// pixels.
type Box struct {
	Page   int     `json:"page" doc:"From 1."`
	Left   float64 `json:"left"`
	Bottom float64 `json:"bottom"`
	Right  float64 `json:"right"`
	Top    float64 `json:"top"`
}

// Empty reports whether the box has no area.
func (b Box) Empty() bool { return b.Page == 0 || b.Right <= b.Left || b.Top <= b.Bottom }

// Union returns the smallest box that contains both, which are on the same page.
func (b Box) Union(o Box) Box {
	switch {
	case b.Empty():
		return o
	case o.Empty():
		return b
	}
	return Box{Page: b.Page, Left: min(b.Left, o.Left), Bottom: min(b.Bottom, o.Bottom), Right: max(b.Right, o.Right), Top: max(b.Top, o.Top)}
}
