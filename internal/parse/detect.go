package parse

// Detection of a file's format from its bytes.

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

type format string

const (
	formatPlain    format = "plain"
	formatMarkdown format = "markdown"
	formatHTML     format = "html"
	formatPDF      format = "pdf"
	formatDOCX     format = "docx"
	formatCSV      format = "csv"
	formatJSONL    format = "jsonl"
	formatXLSX     format = "xlsx"
	formatPPTX     format = "pptx"
	formatODT      format = "odt"
	formatODS      format = "ods"
	formatODP      format = "odp"
	formatEPUB     format = "epub"
	formatEML      format = "eml"
	formatMBOX     format = "mbox"
	formatMSG      format = "msg"
	formatRTF      format = "rtf"
	formatZIP      format = "zip"
	formatDOC      format = "doc"
	formatXLS      format = "xls"
	formatPPT      format = "ppt"
	formatPNG      format = "png"
	formatJPEG     format = "jpeg"
	formatTIFF     format = "tiff"
)

var mediaTypes = map[format]string{
	formatPlain:    "text/plain",
	formatMarkdown: "text/markdown",
	formatHTML:     "text/html",
	formatPDF:      "application/pdf",
	formatDOCX:     "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	formatCSV:      "text/csv",
	formatJSONL:    "application/jsonl",
	formatXLSX:     "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	formatPPTX:     "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	formatODT:      "application/vnd.oasis.opendocument.text",
	formatODS:      "application/vnd.oasis.opendocument.spreadsheet",
	formatODP:      "application/vnd.oasis.opendocument.presentation",
	formatEPUB:     "application/epub+zip",
	formatEML:      "message/rfc822",
	formatMBOX:     "application/mbox",
	formatMSG:      "application/vnd.ms-outlook",
	formatRTF:      "application/rtf",
	formatZIP:      "application/zip",
	formatDOC:      "application/msword",
	formatXLS:      "application/vnd.ms-excel",
	formatPPT:      "application/vnd.ms-powerpoint",
	formatPNG:      "image/png",
	formatJPEG:     "image/jpeg",
	formatTIFF:     "image/tiff",
}

// detected is the result of detection. Text formats are decoded already.
type detected struct {
	format    format
	text      string
	delimiter rune // of CSV
	warnings  []string
}

var (
	magicZIP      = []byte("PK\x03\x04")
	magicEmptyZIP = []byte("PK\x05\x06")
	magicPNG      = []byte("\x89PNG\r\n\x1a\n")
	magicJPEG     = []byte("\xFF\xD8\xFF")
	magicTIFF     = []byte("II*\x00")
	magicTIFFBig  = []byte("MM\x00*")
	magicOLE      = []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")
)

func detect(name, mediaHint string, data []byte, limits Limits) (detected, error) {
	body := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), " \t\r\n\x00")
	switch {
	case len(body) == 0:
		return detected{}, fail(schema.ReasonEmpty, "The file is empty.")
	case isPDF(body):
		return detected{format: formatPDF}, nil
	case bytes.HasPrefix(data, magicZIP), bytes.HasPrefix(data, magicEmptyZIP):
		return detectZIP(data, limits)
	case bytes.HasPrefix(data, magicOLE):
		return detectOLE(data)
	case bytes.HasPrefix(body, []byte(`{\rtf`)):
		return detected{format: formatRTF}, nil
	case bytes.HasPrefix(data, magicPNG):
		return detected{format: formatPNG}, nil
	case bytes.HasPrefix(data, magicJPEG):
		return detected{format: formatJPEG}, nil
	case bytes.HasPrefix(data, magicTIFF), bytes.HasPrefix(data, magicTIFFBig):
		return detected{format: formatTIFF}, nil
	case looksMBOX(body):
		return detected{format: formatMBOX}, nil
	case mailNamed(name, mediaHint), looksMail(body):
		return detected{format: formatEML}, nil
	}
	if kind := binaryKind(body); kind != "" {
		return detected{}, unsupported(kind)
	}
	hint := hintOf(name, mediaHint)
	s, warnings, err := decode(data, hint)
	if err != nil {
		return detected{}, err
	}
	out := detected{text: s, warnings: warnings}
	if strings.TrimSpace(s) == "" {
		return detected{}, fail(schema.ReasonEmpty, "The file has no text in it.")
	}
	out.format, out.delimiter = textFormat(s, hint)
	return out, nil
}

// isPDF reports whether body has a PDF header at the beginning, or a little behind it, as mail
// gateways and web servers may leave it.
func isPDF(body []byte) bool {
	if bytes.HasPrefix(body, []byte("%PDF-")) {
		return true
	}
	head := body[:min(len(body), 1024)]
	return bytes.Contains(head, []byte("\n%PDF-")) && bytes.Contains(body, []byte("startxref"))
}

// detectOLE returns the format of a compound file: an e-mail of Outlook, an encrypted document, or
// a document in an old binary format.
func detectOLE(data []byte) (detected, error) {
	has := func(name string) bool {
		// The directory names its streams in UTF-16.
		var b []byte
		for _, c := range []byte(name) {
			b = append(b, c, 0)
		}
		return bytes.Contains(data, b)
	}
	// In a damaged file, the name of a stream anywhere shows the format. In an undamaged file, only
	// the streams of its root folder do.
	c, damaged := openCompound(data)
	if damaged == nil {
		var root folder
		if root, damaged = c.root(); damaged == nil {
			has = func(name string) bool { _, ok := root.streams[name]; return ok }
		}
	}
	switch {
	case has("EncryptedPackage"):
		return detected{}, fail(schema.ReasonEncrypted, "The document is encrypted. Remove its password and send it again.")
	case has("WordDocument"):
		return detected{format: formatDOC}, nil
	case has("Workbook"), has("Book"):
		return detected{format: formatXLS}, nil
	case has("PowerPoint Document"):
		return detected{format: formatPPT}, nil
	case has(msgProperties):
		return detected{format: formatMSG}, nil
	case damaged != nil:
		return detected{}, damaged
	}
	return detected{}, unsupported("an Office file in an old binary format")
}

func unsupported(kind string) *Error {
	return fail(schema.ReasonUnsupported, "It is %s, which Sluice does not read. It reads text, Markdown, HTML, PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, EPUB, RTF, EML, MSG, MBOX, CSV, JSON Lines, ZIP archives of these, and scans as PNG, JPEG and TIFF.", kind)
}

// binaryKind names the binary formats that have a signature, and the text formats whose text is not
// readable as it is.
func binaryKind(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte("%!PS")):
		return "a PostScript document"
	case bytes.HasPrefix(body, []byte("\x7fELF")), bytes.HasPrefix(body, []byte("MZ")) && bytes.IndexByte(body[:min(len(body), 512)], 0) >= 0:
		return "a program"
	case bytes.HasPrefix(body, []byte("7z\xBC\xAF\x27\x1C")), bytes.HasPrefix(body, []byte("\xFD7zXZ\x00")),
		bytes.HasPrefix(body, []byte("BZh")) && len(body) > 10 && bytes.Equal(body[4:10], []byte("1AY&SY")), bytes.HasPrefix(body, []byte("\x28\xB5\x2F\xFD")):
		return "a compressed file"
	case bytes.HasPrefix(body, []byte("SQLite format 3\x00")):
		return "a database"
	}
	// Some signatures consist of letters: "BMW built" is not a bitmap, "ID3 tags" is no sound.
	if bytes.IndexFunc(body[:min(len(body), 512)], control) < 0 {
		return ""
	}
	kind, _, _ := strings.Cut(http.DetectContentType(body), ";")
	family, _, _ := strings.Cut(kind, "/")
	switch {
	case family == "image" && kind != "image/svg+xml":
		return "an image"
	case family == "audio", kind == "application/ogg":
		return "a sound file"
	case family == "video":
		return "a video"
	case family == "font", kind == "application/vnd.ms-fontobject":
		return "a font"
	case kind == "application/x-gzip", kind == "application/x-rar-compressed":
		return "a compressed file"
	case kind == "application/wasm":
		return "a program"
	}
	return ""
}

// mailNamed reports whether the name or media type is that of an e-mail.
func mailNamed(name, mediaHint string) bool {
	media, _, _ := mime.ParseMediaType(mediaHint)
	return media == "message/rfc822" || media != "text/plain" && strings.EqualFold(path.Ext(name), ".eml")
}

// control reports whether r is a control character that text does not have, but a binary file has
// near its beginning.
func control(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r)
}

// hint is what the name and the media type say about a file.
type hint struct {
	format  format // "" if they say nothing
	charset string // from the media type
	html    bool
}

func hintOf(name, mediaHint string) hint {
	var h hint
	media, params, err := mime.ParseMediaType(mediaHint)
	if err == nil {
		h.charset = params["charset"]
	}
	if u, err := url.Parse(name); err == nil && u.Path != "" {
		name = u.Path
	}
	extension := strings.ToLower(path.Ext(name))
	if media == "text/plain" {
		switch extension {
		case ".csv", ".tsv", ".jsonl", ".ndjson":
			extension = "" // the text of a row of a dataset may have the name rows.jsonl without being JSON: the content decides
		}
	}
	switch extension {
	case ".md", ".markdown", ".mdx", ".mkd":
		h.format = formatMarkdown
	case ".csv", ".tsv":
		h.format = formatCSV
	case ".jsonl", ".ndjson":
		h.format = formatJSONL
	case ".txt", ".text", ".log":
		h.format = formatPlain
	case ".html", ".htm", ".xhtml":
		h.html = true
	default:
		switch media {
		case "text/markdown", "text/x-markdown":
			h.format = formatMarkdown
		case "text/csv", "text/tab-separated-values":
			h.format = formatCSV
		case "application/jsonl", "application/x-ndjson", "application/jsonlines", "application/x-jsonlines":
			h.format = formatJSONL
		}
	}
	h.html = h.html || media == "text/html" || media == "application/xhtml+xml"
	return h
}

// textFormat returns the text format of s, and the delimiter of CSV.
func textFormat(s string, h hint) (format, rune) {
	start := strings.TrimLeft(s, " \t\n\uFEFF")
	if looksHTML(start, h) {
		return formatHTML, 0
	}
	switch h.format {
	case formatMarkdown, formatPlain, formatJSONL:
		return h.format, 0
	case formatCSV:
		if delimiter, columns := sniffDelimiter(s); columns > 0 {
			return formatCSV, delimiter
		}
		return formatCSV, ','
	}
	switch {
	case looksJSON(start):
		return formatJSONL, 0
	case looksMarkdown(start):
		return formatMarkdown, 0
	}
	if delimiter, columns := sniffDelimiter(s); columns > 1 {
		return formatCSV, delimiter
	}
	return formatPlain, 0
}

var (
	htmlStart = regexp.MustCompile(`(?i)^(<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>])`)
	htmlSkip  = regexp.MustCompile(`(?s)^\s*(<!--.*?-->|<\?xml.*?\?>|<!doctype[^>]*>)`)
	htmlTag   = regexp.MustCompile(`(?i)^<(p|div|h[1-6]|table|ul|ol|section|article|main|header|span|title|meta|style|script|center|form)[\s>]`)
	htmlClose = regexp.MustCompile(`(?i)</(p|div|h[1-6]|table|ul|ol|section|article|main|header|span|title|center|body|html)\s*>`)
)

// looksHTML recognises a page by its beginning. It recognises a fragment, too, unless the name is
// that of another text format, which may contain tags.
func looksHTML(s string, h hint) bool {
	for range 20 {
		if htmlStart.MatchString(s) {
			return true
		}
		skipped := htmlSkip.FindString(s)
		if skipped == "" {
			break
		}
		s = strings.TrimLeft(s[len(skipped):], " \t\n")
	}
	if h.html {
		return htmlClose.MatchString(s)
	}
	return h.format == "" && htmlTag.MatchString(s) && htmlClose.MatchString(s)
}

// looksJSON accepts JSON Lines of objects and a JSON document that is an object
// or a list of objects.
func looksJSON(s string) bool {
	switch {
	case strings.HasPrefix(s, "{"):
		line, _, _ := strings.Cut(s, "\n")
		return json.Valid([]byte(line)) || json.Valid([]byte(s))
	case strings.HasPrefix(s, "["):
		return strings.HasPrefix(strings.TrimLeft(s[1:], " \t\n"), "{") && json.Valid([]byte(s))
	}
	return false
}

var markdownSigns = regexp.MustCompile("(?m)^(#{1,6} \\S|```|~~~|\\|[ :-]*---|\\* \\*\\*|> \\S|!\\[[^\\]]*\\]\\(|- \\[[ x]\\] )|\\]\\([^)\\s]+\\)|\\*\\*\\S[^*\\n]*\\*\\*")

// looksMarkdown reports whether the first 64 KB of the text have two signs of Markdown. Most plain
// text has none of the characters, one of which each sign has.
func looksMarkdown(s string) bool {
	s = s[:min(len(s), 64<<10)]
	return strings.ContainsAny(s, "#`~|*>]") && len(markdownSigns.FindAllStringIndex(s, 2)) == 2
}
