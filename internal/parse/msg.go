package parse

// MSG: an e-mail as Outlook saves it, a compound file with a stream for each property (MS-OXMSG).
// The result is like that of an EML file.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/text/encoding/unicode"
)

// Properties (MS-OXPROPS) by their numbers.
const (
	msgSubject       = 0x0037
	msgSentBy        = 0x0042 // the person on whose behalf it is sent
	msgSubmitted     = 0x0039
	msgRecipientKind = 0x0C15
	msgSender        = 0x0C1A
	msgSenderAddress = 0x0C1F
	msgCc            = 0x0E03
	msgTo            = 0x0E04
	msgDelivered     = 0x0E06
	msgBody          = 0x1000
	msgRTF           = 0x1009
	msgHTML          = 0x1013
	msgName          = 0x3001
	msgAddress       = 0x3003
	msgData          = 0x3701
	msgShortName     = 0x3704
	msgLongName      = 0x3707
	msgMediaType     = 0x370E
	msgContentID     = 0x3712
	msgSMTP          = 0x39FE
	msgCharset       = 0x3FDE // of the HTML
	msgCodePage      = 0x3FFD // of text
	msgSenderSMTP    = 0x5D01
	msgHidden        = 0x7FFE

	msgProperties = "__properties_version1.0"
)

// Sizes in bytes of the header of a list of fixed-size properties.
const (
	msgTopHeader      = 32
	msgEmbeddedHeader = 24
	msgPartHeader     = 8
)

// msgFolder is a message, a recipient or an attachment.
type msgFolder struct {
	folder
	c     *compoundFile
	fixed map[uint32]uint64 // values by number and type
	page  int               // code page of the text
}

// openMSG reads the properties in a folder; header is how many bytes precede them in their stream.
func openMSG(c *compoundFile, in folder, header int) (*msgFolder, error) {
	f := &msgFolder{folder: in, c: c, fixed: map[uint32]uint64{}}
	if e, ok := in.streams[msgProperties]; ok {
		b, err := c.read(e)
		if err != nil {
			return nil, err
		}
		for b = b[min(header, len(b)):]; len(b) >= 16; b = b[16:] {
			f.fixed[binary.LittleEndian.Uint32(b)] = binary.LittleEndian.Uint64(b[8:])
		}
	}
	f.page = int(uint32(f.number(msgCodePage)))
	return f, nil
}

func (f *msgFolder) number(property uint32) uint64 { return f.fixed[property<<16|0x0003] }

// bytes returns a property whose type is stored as a stream, or nil if it does not exist.
func (f *msgFolder) bytes(property, kind uint32) ([]byte, error) {
	e, ok := f.streams[fmt.Sprintf("__substg1.0_%04X%04X", property, kind)]
	if !ok {
		return nil, nil
	}
	return f.c.read(e)
}

// text returns the first of the properties that has text.
func (f *msgFolder) text(properties ...uint32) (string, error) {
	for _, p := range properties {
		b, err := f.bytes(p, 0x001F)
		if err != nil {
			return "", err
		}
		if b, err = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewDecoder().Bytes(b); err == nil && len(b) > 0 {
			return strings.TrimRight(string(b), "\x00"), nil
		}
		if b, err = f.bytes(p, 0x001E); err != nil {
			return "", err
		}
		if len(b) > 0 {
			if s, _, err := decode(b, hint{charset: codePageName(f.page)}); err == nil {
				return s, nil
			}
		}
	}
	return "", nil
}

// codePageName returns the web's name of a Windows code page.
func codePageName(page int) string {
	switch {
	case page >= 1250 && page <= 1258, page == 874:
		return fmt.Sprintf("windows-%d", page)
	case page >= 28591 && page <= 28606:
		return fmt.Sprintf("iso-8859-%d", page-28590)
	}
	return map[int]string{65001: "utf-8", 20127: "us-ascii", 932: "shift_jis", 936: "gbk", 949: "euc-kr", 950: "big5", 20866: "koi8-r", 21866: "koi8-u",
		50220: "iso-2022-jp", 51932: "euc-jp", 51949: "euc-kr", 54936: "gb18030"}[page]
}

// date returns when the message was sent or, if that is unknown, delivered.
func (f *msgFolder) date() string {
	for _, p := range []uint32{msgSubmitted, msgDelivered} {
		// Steps of 100 ns since 1601.
		if ticks := f.fixed[p<<16|0x0040]; ticks > 0 && ticks < 1<<62 {
			const to1970, second = 116444736000000000, 10_000_000
			since := int64(ticks) - to1970
			return time.Unix(since/second, since%second*100).UTC().Format(time.RFC1123Z)
		}
	}
	return ""
}

func parseMSG(d *document, data []byte) error {
	c, err := openCompound(data)
	if err != nil {
		return err
	}
	root, err := c.root()
	if err != nil {
		return err
	}
	f, err := openMSG(c, root, msgTopHeader)
	if err != nil {
		return err
	}
	m := mailWalker{d: d}
	if err := m.outlook(f, 0); err != nil {
		return err
	}
	return d.err
}

// outlook adds a message: level 0 is the file itself, higher levels are attached messages.
func (m *mailWalker) outlook(f *msgFolder, level int) error {
	if level > maxMailDepth {
		return fail(schema.ReasonTooLarge, "The parts of the e-mail are nested more than %d deep.", maxMailDepth)
	}
	subject, err := f.text(msgSubject)
	if err != nil {
		return err
	}
	if subject = squeeze(subject); level == 0 {
		m.d.out.Title = subject
	}
	if subject != "" {
		m.d.heading(min(level+1, 9), subject)
	}
	var attachments []*msgFolder
	to := map[uint64][]string{}
	for _, e := range f.folders {
		recipient, attachment := strings.HasPrefix(e.name, "__recip_version1.0_"), strings.HasPrefix(e.name, "__attach_version1.0_")
		if !recipient && !attachment {
			continue
		}
		if m.parts++; m.parts > m.d.limits.Entries {
			return fail(schema.ReasonTooLarge, "The e-mail has more than %d parts.", m.d.limits.Entries)
		}
		in, err := f.c.open(e)
		if err != nil {
			return err
		}
		part, err := openMSG(f.c, in, msgPartHeader)
		if err != nil {
			return err
		}
		part.page = f.page
		if attachment {
			attachments = append(attachments, part)
			continue
		}
		address, err := part.address([]uint32{msgName}, msgSMTP, msgAddress)
		if err != nil {
			return err
		}
		kind := part.number(msgRecipientKind) & 0xF
		to[kind] = append(to[kind], address)
	}
	if err := m.outlookHead(f, to); err != nil {
		return err
	}
	if err := m.outlookBody(f, level); err != nil {
		return err
	}
	for _, a := range attachments {
		if err := m.outlookAttachment(a, level); err != nil {
			return err
		}
	}
	return m.d.err
}

// address returns a person's name and address.
func (f *msgFolder) address(names []uint32, addresses ...uint32) (string, error) {
	name, err := f.text(names...)
	if err != nil {
		return "", err
	}
	for _, p := range addresses {
		address, err := f.text(p)
		if err != nil {
			return "", err
		}
		// Within an organisation the address may be a directory path instead.
		if address = squeeze(address); strings.Contains(address, "@") {
			if name = squeeze(name); name == "" || name == address {
				return address, nil
			}
			return name + " <" + address + ">", nil
		}
	}
	return squeeze(name), nil
}

// outlookHead adds the sender, the recipients and the date.
func (m *mailWalker) outlookHead(f *msgFolder, to map[uint64][]string) error {
	from, err := f.address([]uint32{msgSender, msgSentBy}, msgSenderSMTP, msgSenderAddress)
	if err != nil {
		return err
	}
	lines := []string{"From: " + from}
	for kind, p := range []struct {
		name     string
		property uint32
	}{1: {"To", msgTo}, 2: {"Cc", msgCc}} {
		if p.name == "" {
			continue
		}
		list := strings.Join(to[uint64(kind)], ", ")
		if list == "" {
			if list, err = f.text(p.property); err != nil {
				return err
			}
		}
		lines = append(lines, p.name+": "+squeeze(list))
	}
	lines = append(lines, "Date: "+f.date())
	var fields []string
	for _, line := range lines {
		if !strings.HasSuffix(line, ": ") {
			fields = append(fields, line)
		}
	}
	m.d.add(schema.BlockParagraph, 0, strings.Join(fields, "\n"), 0)
	return m.d.err
}

// outlookBody adds the text: the plain text, or the HTML if that has much more, or the RTF.
func (m *mailWalker) outlookBody(f *msgFolder, level int) error {
	plain, err := f.text(msgBody)
	if err != nil {
		return err
	}
	chosen, err := m.text("text/plain", "utf-8", []byte(plain))
	if err != nil {
		return err
	}
	html, err := f.bytes(msgHTML, 0x0102)
	charset := codePageName(int(uint32(f.number(msgCharset))))
	if err == nil && html == nil {
		var s string
		s, err = f.text(msgHTML)
		html, charset = []byte(s), "utf-8"
	}
	if err != nil {
		return err
	}
	if len(html) > 0 {
		page, err := m.text("text/html", charset, html)
		if err != nil {
			return err
		}
		if page.size > 2*chosen.size {
			chosen = page
		}
	}
	if chosen.size == 0 {
		packed, err := f.bytes(msgRTF, 0x0102)
		if err != nil {
			return err
		}
		if len(packed) > 0 {
			rtf, err := unpackRTF(packed, m.d.limits)
			if err != nil {
				return err
			}
			chosen = m.d.part()
			if err := parseRTF(chosen, rtf); err != nil {
				return err
			}
		}
	}
	return m.d.adopt(chosen, level)
}

// outlookAttachment adds an attached file or message.
func (m *mailWalker) outlookAttachment(f *msgFolder, level int) error {
	for _, e := range f.folders {
		if e.name != fmt.Sprintf("__substg1.0_%04X000D", msgData) {
			continue
		}
		in, err := f.c.open(e)
		if err != nil {
			return err
		}
		if _, message := in.streams[msgProperties]; !message {
			m.d.warn("An object in the e-mail was not read.")
			return m.d.err
		}
		inner, err := openMSG(f.c, in, msgEmbeddedHeader)
		if err != nil {
			return err
		}
		if inner.page == 0 {
			inner.page = f.page
		}
		return m.outlook(inner, level+1)
	}
	name, err := f.text(msgLongName, msgShortName, msgName)
	if err != nil {
		return err
	}
	media, err := f.text(msgMediaType)
	if err != nil {
		return err
	}
	id, err := f.text(msgContentID)
	if err != nil {
		return err
	}
	if f.fixed[msgHidden<<16|0x000B]&1 == 1 || id != "" && strings.HasPrefix(media, "image/") {
		return m.d.err // inline content of the text, such as an image
	}
	data, err := f.bytes(msgData, 0x0102)
	var e *Error
	if errors.As(err, &e) {
		m.d.warn(fmt.Sprintf("Attachment %s was not read: %s", squeeze(name), e.Reason.Message))
		return m.d.err
	}
	if err != nil || data == nil {
		return err
	}
	return m.attachment(squeeze(name), media, data, level)
}
