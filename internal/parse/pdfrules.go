package parse

import (
	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"
)

const (
	ruleObjects   = 5000 // of a page are looked at
	ruleThickness = 2.5  // points, at most
	ruleLength    = 8    // points, at least
)

// pageRules returns the thin horizontal lines of a page, which say how far the
// headings of a table's columns reach. A page that cannot tell has none.
func pageRules(instance pdfium.Pdfium, page requests.Page) []pdfRule {
	counted, err := instance.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil {
		return nil
	}
	var out []pdfRule
	for i := range min(counted.Count, ruleObjects) {
		object, err := instance.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: i})
		if err != nil {
			continue
		}
		kind, err := instance.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object.PageObject})
		if err != nil || kind.Type != enums.FPDF_PAGEOBJ_PATH {
			continue
		}
		b, err := instance.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: object.PageObject})
		if err == nil && b.Top-b.Bottom <= ruleThickness && b.Right-b.Left >= ruleLength {
			out = append(out, pdfRule{float64(b.Left), float64(b.Right), float64(b.Bottom+b.Top) / 2})
		}
	}
	return out
}
