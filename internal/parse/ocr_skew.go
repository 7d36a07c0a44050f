package parse

// Turns scanned pages upright and corrects their skew.

import (
	"image"
	"math"
)

// affine maps a point (x, y) to (a*x + b*y + c, d*x + e*y + f).
type affine struct{ a, b, c, d, e, f float64 }

func (m affine) apply(x, y float64) (float64, float64) {
	return m.a*x + m.b*y + m.c, m.d*x + m.e*y + m.f
}

// after returns the map that does first and then m.
func (m affine) after(first affine) affine {
	c, f := m.apply(first.c, first.f)
	return affine{
		m.a*first.a + m.b*first.d, m.a*first.b + m.b*first.e, c,
		m.d*first.a + m.e*first.d, m.d*first.b + m.e*first.e, f,
	}
}

// rotateQuarters returns the image turned by quarters times 90 degrees, clockwise, and the map from
// the turned image back to in.
func rotateQuarters(in *image.Gray, quarters int) (*image.Gray, affine) {
	w, h := in.Bounds().Dx(), in.Bounds().Dy()
	var back affine
	outW, outH := w, h
	switch quarters {
	case 1:
		outW, outH = h, w
		back = affine{0, 1, 0, -1, 0, float64(h)}
	case 2:
		back = affine{-1, 0, float64(w), 0, -1, float64(h)}
	case 3:
		outW, outH = h, w
		back = affine{0, -1, float64(w), 1, 0, 0}
	default:
		return in, affine{1, 0, 0, 0, 1, 0}
	}
	out := image.NewGray(image.Rect(0, 0, outW, outH))
	for y := range outH {
		for x := range outW {
			// Map the centre of the pixel, since a pixel is an area.
			fromX, fromY := back.apply(float64(x)+0.5, float64(y)+0.5)
			out.Pix[y*out.Stride+x] = in.Pix[int(fromY)*in.Stride+int(fromX)]
		}
	}
	return out, back
}

const (
	skewMost   = 8.0  // largest skew that is searched, in degrees
	skewCoarse = 0.5  // step of the first search, in degrees
	skewFine   = 0.05 // step of the last search, in degrees
	skewLeast  = 0.1  // smallest skew that is corrected, in degrees
	skewWidth  = 1000 // approximate width in pixels of the image that is examined
)

// skew returns by how many degrees a page must be turned, clockwise, for its lines to be level; 0
// if they are. The angle is the one at which the lower edges of ink fall into the fewest rows (the
// sharpest projection profile).
func skew(page *image.Gray) float64 {
	edges, height := lowerEdges(page)
	if len(edges) < 100 {
		return 0
	}
	profile := make([]int, height+2*int(skewWidth*math.Tan(skewMost*math.Pi/180)*2)+4)
	score := func(degrees float64) float64 {
		clear(profile)
		slope := math.Tan(degrees * math.Pi / 180)
		offset := len(profile)/2 - height/2
		for _, p := range edges {
			// The centre of the page stays fixed, so that no row leaves the profile.
			row := offset + int(math.Round(float64(p.Y)+slope*float64(p.X)))
			if row >= 0 && row < len(profile) {
				profile[row]++
			}
		}
		sum := 0.0
		for _, n := range profile {
			sum += float64(n) * float64(n)
		}
		return sum
	}
	level := score(0)
	best, most := 0.0, level
	try := func(from, to, step float64) {
		for i := range int(math.Round((to-from)/step)) + 1 {
			angle := from + float64(i)*step
			if s := score(angle); s > most {
				best, most = angle, s
			}
		}
	}
	try(-skewMost, skewMost, skewCoarse)
	middle := best
	try(middle-skewCoarse, middle+skewCoarse, skewFine)
	if math.Abs(best) < skewLeast || math.Abs(best) >= skewMost || most < 1.02*level {
		return 0
	}
	return best
}

// edgeStep returns how many pixels of the page, in each direction, become one pixel of the smaller
// image.
func edgeStep(page *image.Gray) int {
	return max(1, int(math.Round(float64(max(page.Bounds().Dx(), page.Bounds().Dy()))/(1.4*skewWidth))))
}

// unread returns the share of the ink's lower edges that are in no word.
func unread(page *image.Gray, lines [][]recognisedWord) float64 {
	edges, height := lowerEdges(page)
	step := edgeStep(page)
	width := page.Bounds().Dx() / step
	read := make([]bool, width*height)
	for _, line := range lines {
		for _, w := range line {
			for y := max(w.box.Min.Y/step, 0); y <= min(w.box.Max.Y/step, height-1); y++ {
				for x := max(w.box.Min.X/step, 0); x <= min(w.box.Max.X/step, width-1); x++ {
					read[y*width+x] = true
				}
			}
		}
	}
	left := 0
	for _, p := range edges {
		if !read[p.Y*width+p.X+width/2] {
			left++
		}
	}
	return float64(left) / float64(max(len(edges), 1))
}

// lowerEdges returns the pixels of a reduced image that are ink above paper, with x relative to the
// centre, and the height of the reduced image.
func lowerEdges(page *image.Gray) (edges []image.Point, height int) {
	w, h := page.Bounds().Dx(), page.Bounds().Dy()
	step := edgeStep(page)
	w, height = w/step, h/step
	small := make([]uint8, w*height)
	sum := 0
	for y := range height {
		for x := range w {
			// Each square becomes its darkest pixel, so that thin strokes are kept.
			darkest := uint8(255)
			for dy := range step {
				row := page.Pix[(y*step+dy)*page.Stride+x*step:]
				for _, p := range row[:step] {
					darkest = min(darkest, p)
				}
			}
			small[y*w+x] = darkest
			sum += int(darkest)
		}
	}
	if len(small) == 0 {
		return nil, 0
	}
	threshold := uint8(sum / len(small) * 3 / 4)
	for y := range height - 1 {
		for x := range w {
			if small[y*w+x] < threshold && small[(y+1)*w+x] >= threshold {
				edges = append(edges, image.Pt(x-w/2, y))
			}
		}
	}
	return edges, height
}

// rotate returns the image turned by an angle in degrees, clockwise, enlarged to fit its corners,
// and the map from the turned image back to in.
func rotate(in *image.Gray, degrees float64) (*image.Gray, affine) {
	w, h := in.Bounds().Dx(), in.Bounds().Dy()
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	outW := int(math.Ceil(float64(w)*math.Abs(cos) + float64(h)*math.Abs(sin)))
	outH := int(math.Ceil(float64(w)*math.Abs(sin) + float64(h)*math.Abs(cos)))
	// The rotation maps the centre of one image to the centre of the other.
	back := affine{a: cos, b: sin, d: -sin, e: cos}
	x, y := back.apply(float64(outW)/2, float64(outH)/2)
	back.c, back.f = float64(w)/2-x, float64(h)/2-y
	out := image.NewGray(image.Rect(0, 0, outW, outH))
	for i := range out.Pix {
		out.Pix[i] = 255
	}
	for oy := range outH {
		fx, fy := back.apply(0.5, float64(oy)+0.5)
		row := out.Pix[oy*out.Stride : oy*out.Stride+outW]
		for ox := range row {
			// Interpolate between the four nearest pixels, with weights in 256ths.
			px, py := fx-0.5, fy-0.5
			fx += back.a
			fy += back.d
			x0, y0 := int(math.Floor(px)), int(math.Floor(py))
			if x0 < 0 || y0 < 0 || x0 >= w-1 || y0 >= h-1 {
				continue
			}
			ax, ay := int((px-float64(x0))*256), int((py-float64(y0))*256)
			at := y0*in.Stride + x0
			top := int(in.Pix[at])*(256-ax) + int(in.Pix[at+1])*ax
			low := int(in.Pix[at+in.Stride])*(256-ax) + int(in.Pix[at+in.Stride+1])*ax
			row[ox] = uint8((top*(256-ay) + low*ay) >> 16)
		}
	}
	return out, back
}
