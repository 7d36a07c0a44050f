package parse

// Word, Excel and PowerPoint files in the old binary formats, in the child: it requests the same
// document in the new format from the pool, which LibreOffice makes elsewhere (office_process.go),
// and parses the result.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// oldFormat is a binary format that LibreOffice converts.
type oldFormat struct {
	description, name string // for messages
	from, to          string // extensions
	part              string // the component of LibreOffice, which is also the name of its Debian package
	library           string // whose presence shows that the component is installed
}

var oldFormats = map[format]oldFormat{
	formatDOC: {"a Word document", "DOC", "doc", "docx", "writer", "libswlo.so"},
	formatXLS: {"an Excel workbook", "XLS", "xls", "xlsx", "calc", "libsclo.so"},
	formatPPT: {"a PowerPoint presentation", "PPT", "ppt", "pptx", "impress", "libsdlo.so"},
}

// officeOptions say whether old formats are converted.
type officeOptions struct {
	Parts  []string `json:"parts,omitempty"` // installed components of LibreOffice
	Reason string   `json:"why,omitempty"`   // why nothing is converted
}

// convertRequest is the child's request; the file follows as a frame.
type convertRequest struct {
	Format format `json:"format"`
}

// convertReply is the answer. If it has neither reason nor failure, a frame with the new file
// follows.
type convertReply struct {
	Reason  *schema.Reason `json:"reason,omitempty"`  // the file is to blame
	Failure string         `json:"failure,omitempty"` // LibreOffice, or this machine
}

// parseOld converts a file and parses the result as an enclosed file of d.
func parseOld(d *document, f format, data []byte) error {
	old := oldFormats[f]
	if err := old.encrypted(data); err != nil {
		return err
	}
	if err := old.refusal(d.ocr.office); err != nil {
		return err
	}
	converted, err := d.ocr.convert(convertRequest{Format: f}, data, d.limits)
	if err != nil {
		return err
	}
	parsed, err := d.enclosed("converted."+old.to, "", converted, d.in.deeper())
	if err != nil {
		return err
	}
	parsed.MediaType, parsed.Warnings = d.out.MediaType, append(d.out.Warnings, parsed.Warnings...)
	d.out = parsed
	return nil
}

// refusal returns an error that says how to make the file readable if it cannot be converted here;
// else nil.
func (o oldFormat) refusal(t officeOptions) error {
	for _, part := range t.Parts {
		if part == o.part {
			return nil
		}
	}
	remedy := fmt.Sprintf("Install LibreOffice (Debian: libreoffice-%s-nogui) where the ingest-worker runs, restart it and retry", o.part)
	if t.Reason != "" {
		remedy = t.Reason
	}
	return fail(schema.ReasonUnsupported, "It is %s in the old binary format (%s). %s; or save it as %s and send that: soffice --headless --convert-to %s *.%s",
		o.description, o.name, remedy, strings.ToUpper(o.to), o.to, o.from)
}

// encrypted returns an error for a document that declares that it needs a password.
func (o oldFormat) encrypted(data []byte) error {
	// LibreOffice may be able to read a damaged file nevertheless.
	c, err := openCompound(data)
	if err != nil {
		return nil
	}
	root, err := c.root()
	if err != nil {
		return nil
	}
	le, locked := binary.LittleEndian, false
	switch o.from {
	case "doc":
		b, err := c.read(root.streams["WordDocument"])
		locked = err == nil && len(b) > 11 && le.Uint16(b[10:])&0x100 != 0 // FIB: fEncrypted
	case "xls":
		e, found := root.streams["Workbook"]
		if !found {
			e = root.streams["Book"]
		}
		b, err := c.read(e)
		// The first record begins the workbook; FILEPASS is among those right after it.
		for n := 0; err == nil && n < 50 && len(b) >= 4 && !locked; n++ {
			locked = le.Uint16(b) == 0x2F
			b = b[min(len(b), 4+int(le.Uint16(b[2:]))):]
		}
	}
	if locked {
		return fail(schema.ReasonEncrypted, "The document is encrypted. Remove its password and send it again.")
	}
	return nil
}

// convert sends a file and returns the new one. It returns an *Error if the file is the cause.
func (o *ocrSession) convert(c convertRequest, data []byte, limits Limits) ([]byte, error) {
	o.time.stop()
	defer o.time.start()
	if err := writeReply(o.out, reply{Convert: &c}); err != nil {
		return nil, err
	}
	if err := writeFrame(o.out, data); err != nil {
		return nil, err
	}
	body, err := readFrame(o.in)
	if err != nil {
		return nil, fmt.Errorf("wait for a converted file: %w", err)
	}
	var reply convertReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("decode the answer to a conversion: %w", err)
	}
	switch {
	case reply.Reason != nil:
		return nil, &Error{Reason: *reply.Reason}
	case reply.Failure != "":
		return nil, fail(schema.ReasonBroken, "LibreOffice did not convert it: %s", reply.Failure)
	}
	converted, err := readFrameOf(o.in, uint64(limits.Bytes))
	if err != nil {
		return nil, fmt.Errorf("read a converted file: %w", err)
	}
	return converted, nil
}
