package parse

// Whether text is recognised, and in which language.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
)

// osdData is the name of the traineddata that determines the orientation of a page.
const osdData = "osd"

// ocrOptions say whether and how a file's pages are recognised.
type ocrOptions struct {
	Enabled     bool   `json:"on,omitempty"`
	Reason      string `json:"why,omitempty"`  // why it is off, with the remedy
	Data        string `json:"data,omitempty"` // the traineddata's name
	Orientation bool   `json:"orientation,omitempty"`
	Warning     string `json:"warning,omitempty"` // added to documents with recognised text
}

// Why text is not recognised, with the remedy.
const (
	ocrIsOff     = "Text recognition is off: set SLUICE_PARSE_OCR to auto."
	ocrIsMissing = "Text recognition needs tesseract, which is not installed: install the package tesseract-ocr and restart the ingest-worker."
)

// traineddata maps BCP 47 tags to the names of tesseract's data. The longest matching prefix of a
// tag wins. ISO 639-1 codes have two letters; tesseract uses the three of ISO 639-2.
var traineddata = map[string]string{
	"af": "afr", "ar": "ara", "az": "aze", "be": "bel", "bg": "bul", "bn": "ben", "bs": "bos", "ca": "cat", "cs": "ces", "cy": "cym",
	"da": "dan", "de": "deu", "el": "ell", "en": "eng", "eo": "epo", "es": "spa", "et": "est", "eu": "eus", "fa": "fas", "fi": "fin",
	"fr": "fra", "ga": "gle", "gl": "glg", "gu": "guj", "he": "heb", "hi": "hin", "hr": "hrv", "hu": "hun", "hy": "hye", "id": "ind",
	"is": "isl", "it": "ita", "ja": "jpn", "ka": "kat", "kk": "kaz", "km": "khm", "kn": "kan", "ko": "kor", "la": "lat", "lt": "lit",
	"lv": "lav", "mk": "mkd", "ml": "mal", "mr": "mar", "ms": "msa", "mt": "mlt", "nb": "nor", "ne": "nep", "nl": "nld", "nn": "nor",
	"no": "nor", "pa": "pan", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "si": "sin", "sk": "slk", "sl": "slv", "sq": "sqi",
	"sr": "srp", "sr-latn": "srp_latn", "sv": "swe", "sw": "swa", "ta": "tam", "te": "tel", "th": "tha", "tl": "tgl", "tr": "tur",
	"uk": "ukr", "ur": "urd", "uz": "uzb", "vi": "vie", "yi": "yid",
	"zh": "chi_sim", "zh-hant": "chi_tra", "zh-tw": "chi_tra", "zh-hk": "chi_tra", "zh-mo": "chi_tra",
}

// dataOf returns the traineddata's name for a BCP 47 tag, or "" if there is none.
func dataOf(tag string) string {
	tag = strings.ToLower(strings.ReplaceAll(tag, "_", "-"))
	for tag != "" {
		if name := traineddata[tag]; name != "" {
			return name
		}
		tag = tag[:max(strings.LastIndexByte(tag, '-'), 0)]
	}
	return ""
}

// debianPackage returns the Debian package that contains the traineddata of this name.
func debianPackage(data string) string {
	return "tesseract-ocr-" + strings.ReplaceAll(data, "_", "-")
}

// optionsFor returns the options for a file of this language. If the language's data is not
// installed, English is used, with a warning.
func (t *tesseract) optionsFor(language string) ocrOptions {
	const english = "eng"
	if language == "" {
		language = "en"
	}
	name := dataOf(language)
	options := ocrOptions{Enabled: true, Data: name, Orientation: t.traineddata(osdData)}
	if name != "" && t.traineddata(name) {
		return options
	}
	if name == english || !t.traineddata(english) {
		return ocrOptions{Reason: fmt.Sprintf("Text recognition has no data for the collection's language (%s): install the package %s.",
			language, debianPackage(orEnglish(name)))}
	}
	options.Data = english
	if name == "" {
		options.Warning = fmt.Sprintf("scanned pages were read as English: text recognition has no data for the collection's language (%s)", language)
	} else {
		options.Warning = fmt.Sprintf("scanned pages were read as English: for the collection's language (%s) install the package %s and retry",
			language, debianPackage(name))
	}
	return options
}

func orEnglish(name string) string {
	if name == "" {
		return "eng"
	}
	return name
}

// ocrOptionsFor returns the options for a file of this language. The first call looks for
// tesseract.
func (r *poolRun) ocrOptionsFor(ctx context.Context, language string) ocrOptions {
	if r.options.NoOCR {
		return ocrOptions{Reason: ocrIsOff}
	}
	r.findTesseractOnce.Do(func() {
		found, err := findTesseract(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			slog.Warn("cannot recognise the text of scanned pages", "error", err)
			r.tesseractProblem = fmt.Sprintf("Text recognition cannot start: %v.", err)
		default:
			r.tesseract = found
		}
	})
	switch {
	case r.tesseract != nil:
		return r.tesseract.optionsFor(language)
	case r.tesseractProblem != "":
		return ocrOptions{Reason: r.tesseractProblem}
	}
	return ocrOptions{Reason: ocrIsMissing}
}
