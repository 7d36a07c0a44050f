package parse

// EML: an e-mail with its sender, recipients, text and attachments. Each attachment is parsed as a
// file.

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/net/html/charset"
)

// maxMailDepth bounds the nesting of parts and of messages.
const maxMailDepth = 20

func parseEML(d *document, data []byte) error {
	m := mailWalker{d: d}
	if err := m.message(data, 0, ""); err != nil {
		return err
	}
	return d.err
}

// looksMail reports whether a file begins with the header of an e-mail.
func looksMail(body []byte) bool {
	head := body[:min(len(body), 64<<10)]
	signs, lines := 0, 0
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return lines > 2 && signs > 1
		}
		if line[0] == ' ' || line[0] == '\t' {
			if lines == 0 {
				return false
			}
			continue
		}
		name, _, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return false
		}
		lines++
		switch textproto.CanonicalMIMEHeaderKey(string(name)) {
		case "Received", "Return-Path", "Message-Id", "Mime-Version", "From", "To", "Date", "Delivered-To":
			signs++
		}
	}
	return false
}

// mailWalker walks the parts of an e-mail.
type mailWalker struct {
	d     *document
	parts int
	box   bool // the file is a mailbox, not a message
}

var words = mime.WordDecoder{CharsetReader: charset.NewReaderLabel}

// headerText decodes a header's value.
func headerText(s string) string {
	if decoded, err := words.DecodeHeader(s); err == nil {
		s = decoded
	}
	return squeeze(s)
}

// message adds a message: level 0 is the file itself, or a message of a mailbox; higher levels are
// attached messages. unnamed is the heading of a message without a subject.
func (m *mailWalker) message(data []byte, level int, unnamed string) error {
	msg, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(data, "\r\n")))
	if err != nil {
		return fail(schema.ReasonBroken, "The header of the e-mail is not well-formed. Save the e-mail again and send that.").because(err)
	}
	subject := headerText(msg.Header.Get("Subject"))
	if level == 0 && !m.box {
		m.d.out.Title = subject
	}
	if subject == "" {
		subject = unnamed
	}
	if subject != "" {
		if date, err := msg.Header.Date(); m.box && err == nil {
			subject += date.Format(" (2006-01-02 15:04)") // all messages of a thread have the same subject
		}
		m.d.heading(min(level+1, 9), subject)
	}
	var lines []string
	for _, name := range []string{"From", "To", "Cc", "Date"} {
		if v := headerText(msg.Header.Get(name)); v != "" {
			lines = append(lines, name+": "+v)
		}
	}
	m.d.add(schema.BlockParagraph, 0, strings.Join(lines, "\n"), 0)
	return m.part(textproto.MIMEHeader(msg.Header), msg.Body, level, 0)
}

// part adds a part and the parts in it.
func (m *mailWalker) part(h textproto.MIMEHeader, body io.Reader, level, depth int) error {
	if m.parts++; m.parts > m.d.limits.Entries {
		return fail(schema.ReasonTooLarge, "The e-mail has more than %d parts.", m.d.limits.Entries)
	}
	if level+depth > maxMailDepth {
		return fail(schema.ReasonTooLarge, "The parts of the e-mail are nested more than %d deep.", maxMailDepth)
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		media, params = "text/plain", nil
	}
	if strings.HasPrefix(media, "multipart/") && params["boundary"] != "" {
		return m.multipart(media, multipart.NewReader(body, params["boundary"]), level, depth)
	}
	data, err := transferred(h.Get("Content-Transfer-Encoding"), body)
	if err != nil {
		m.d.warn("A part of the e-mail is damaged; what could be read of it was taken.")
	}
	name := fileName(h, params)
	disposition, _, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	switch {
	case media == "message/rfc822":
		return m.message(data, level+1, "")
	case disposition != "attachment" && name == "" && strings.HasPrefix(media, "text/"):
		text, err := m.text(media, params["charset"], data)
		if err != nil {
			return err
		}
		return m.d.adopt(text, level)
	case disposition != "attachment" && (strings.HasPrefix(media, "image/") || h.Get("Content-Id") != "" && name == ""):
		return m.d.err // inline content of the text, such as an image
	}
	return m.attachment(name, media, data, level)
}

// multipart adds parts. Of alternatives it adds only one: the first that can be read, unless a
// later one has more than twice as much text.
func (m *mailWalker) multipart(media string, r *multipart.Reader, level, depth int) error {
	var chosen *document
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			m.d.warn("The e-mail is cut off or damaged; what could be read of it was taken.")
			break
		}
		if media != "multipart/alternative" {
			if err := m.part(p.Header, p, level, depth+1); err != nil {
				return err
			}
			continue
		}
		alternative := mailWalker{d: m.d.part(), parts: m.parts, box: m.box}
		err = alternative.part(p.Header, p, level, depth+1)
		m.parts = alternative.parts
		if err != nil {
			return err
		}
		// The plain text comes first, and often only says to look at the other part.
		if chosen == nil || alternative.d.size > 2*chosen.size {
			chosen = alternative.d
		}
	}
	if chosen != nil {
		for _, w := range chosen.out.Warnings {
			m.d.warn(w)
		}
		return m.d.adopt(chosen, 0)
	}
	return m.d.err
}

// transferred decodes the transfer encoding.
func transferred(encoding string, body io.Reader) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	return io.ReadAll(body)
}

func fileName(h textproto.MIMEHeader, params map[string]string) string {
	_, disposition, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	name := disposition["filename"]
	if name == "" {
		name = params["name"]
	}
	return headerText(name)
}

// text reads a part that is text of the e-mail.
func (m *mailWalker) text(media, charset string, data []byte) (*document, error) {
	out := m.d.part()
	s, warnings, err := decode(data, hint{charset: charset, html: media == "text/html"})
	if err != nil || strings.TrimSpace(s) == "" {
		if err != nil {
			m.d.warn("A text of the e-mail could not be decoded.")
		}
		return out, m.d.err
	}
	for _, w := range warnings {
		m.d.warn(w)
	}
	if media == "text/html" {
		return out, parseBody(out, s)
	}
	return out, parsePlain(out, s)
}

// attachment adds a file under a heading with its name. A file that cannot be read is named in a
// warning, since the e-mail is useful without it.
func (m *mailWalker) attachment(name, media string, data []byte, level int) error {
	if m.d.size >= m.d.limits.TextBytes {
		return m.d.tooMuchText()
	}
	if level >= maxMailDepth {
		return fail(schema.ReasonTooLarge, "The parts of the e-mail are nested more than %d deep.", maxMailDepth)
	}
	read, err := m.d.enclosed(name, media, data, m.d.in.deeper())
	var e *Error
	switch {
	case errors.As(err, &e):
		if name == "" {
			name = "without a name"
		}
		m.d.warn(fmt.Sprintf("Attachment %s was not read: %s", name, e.Reason.Message))
		return m.d.err
	case err != nil:
		return err
	}
	for _, w := range read.Warnings {
		m.d.warn(name + ": " + w)
	}
	if name == "" {
		name = read.Title
	}
	m.d.heading(min(level+2, 9), name)
	return m.d.adopt(&document{out: read}, level+2)
}

// adopt adds the blocks of another document, with deeper added to the levels of headings. Page
// numbers of the other document are dropped.
func (d *document) adopt(other *document, deeper int) error {
	if other.err != nil && d.err == nil {
		d.err = other.err
	}
	for _, b := range other.out.Blocks {
		if b.Kind == schema.BlockHeading {
			b.Level = min(b.Level+deeper, 9)
		}
		d.link(b.Links...)
		if !d.add(b.Kind, b.Level, b.Text, 0) {
			break
		}
	}
	return d.err
}
