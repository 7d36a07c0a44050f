package parse

import (
	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

const (
	maxRuleObjects   = 5000 // most objects of a page that are examined
	maxRuleThickness = 2.5  // largest thickness in points
	minRuleLength    = 8    // least length in points
)

// pdfRule is a thin horizontal line of a page, in points from the lower left.
type pdfRule struct{ left, right, y float64 }

// pdfVerticalRule is a thin vertical line of a page, in points from the lower left.
type pdfVerticalRule struct{ x, bottom, top float64 }

// pdfShade is a filled box of a page, such as the background of a table's row.
type pdfShade struct{ left, bottom, right, top float64 }

// pdfRuling is the lines and boxes drawn on a page.
type pdfRuling struct {
	horizontal []pdfRule
	vertical   []pdfVerticalRule
	shades     []pdfShade
}

// pageRules returns the thin lines and the filled boxes of a page, which show the edges of a
// table's cells. On error there are none.
func pageRules(instance pdfium.Pdfium, page requests.Page) pdfRuling {
	var out pdfRuling
	counted, err := instance.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil {
		return out
	}
	for i := range min(counted.Count, maxRuleObjects) {
		object, err := instance.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: i})
		if err != nil {
			continue
		}
		kind, err := instance.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object.PageObject})
		if err != nil || kind.Type != enums.FPDF_PAGEOBJ_PATH {
			continue
		}
		b, err := instance.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: object.PageObject})
		if err != nil {
			continue
		}
		box := pdfShade{float64(b.Left), float64(b.Bottom), float64(b.Right), float64(b.Top)}
		wide, high := box.right-box.left, box.top-box.bottom
		switch {
		case high <= maxRuleThickness && wide >= minRuleLength:
			out.horizontal = append(out.horizontal, pdfRule{box.left, box.right, (box.bottom + box.top) / 2})
		case wide <= maxRuleThickness && high >= minRuleLength:
			out.vertical = append(out.vertical, pdfVerticalRule{(box.left + box.right) / 2, box.bottom, box.top})
		case wide >= minRuleLength && high >= minRuleLength/2:
			mode, err := instance.FPDFPath_GetDrawMode(&requests.FPDFPath_GetDrawMode{PageObject: object.PageObject})
			if err != nil {
				continue
			}
			if mode.Stroke && boxed(instance, object.PageObject) {
				out.horizontal = append(out.horizontal, pdfRule{box.left, box.right, box.bottom}, pdfRule{box.left, box.right, box.top})
				out.vertical = append(out.vertical, pdfVerticalRule{box.left, box.bottom, box.top}, pdfVerticalRule{box.right, box.bottom, box.top})
			} else if mode.FillMode != enums.FPDF_FILLMODE_NONE {
				out.shades = append(out.shades, box)
			}
		}
	}
	return out
}

// boxed reports whether a path has as many segments as a rectangle.
func boxed(instance pdfium.Pdfium, object references.FPDF_PAGEOBJECT) bool {
	n, err := instance.FPDFPath_CountSegments(&requests.FPDFPath_CountSegments{PageObject: object})
	return err == nil && (n.Count == 4 || n.Count == 5)
}
