package parse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"

	"github.com/sluice-rag/sluice/schema"
)

// tree is a folder of a compound file: streams as bytes, folders as trees.
type tree map[string]any

// compound writes a compound file with sectors of 512 bytes.
func compound(root tree) []byte {
	le := binary.LittleEndian
	var entries, mini []byte
	var fat, miniFAT []uint32
	var sectors []byte
	store := func(b []byte) uint32 { // stores b as a chain of sectors
		if len(b) == 0 {
			return cfbEnd
		}
		start := uint32(len(fat))
		for at := 0; at < len(b); at += 512 {
			sector := make([]byte, 512)
			copy(sector, b[at:])
			sectors = append(sectors, sector...)
			fat = append(fat, uint32(len(fat)+1))
		}
		fat[len(fat)-1] = cfbEnd
		return start
	}
	entry := func(name string, kind byte, start uint32, size int) uint32 {
		e := make([]byte, cfbEntrySize)
		for i, u := range utf16.Encode([]rune(name)) {
			le.PutUint16(e[2*i:], u)
		}
		le.PutUint16(e[64:], uint16(2*len(name)+2))
		e[66] = kind
		for _, at := range []int{68, 72, 76} {
			le.PutUint32(e[at:], cfbNone)
		}
		le.PutUint32(e[116:], start)
		le.PutUint64(e[120:], uint64(size))
		entries = append(entries, e...)
		return uint32(len(entries)/cfbEntrySize - 1)
	}
	entry("Root Entry", 5, 0, 0)
	var fill func(parent uint32, t tree)
	fill = func(parent uint32, t tree) {
		link := int(parent)*cfbEntrySize + 76 // the folder refers to the first child, and each child to the next as its right sibling
		for _, name := range slices.Sorted(maps.Keys(t)) {
			var id uint32
			switch v := t[name].(type) {
			case []byte:
				if len(v) < cfbMiniCutoff {
					start := uint32(cfbEnd)
					if len(v) > 0 {
						start = uint32(len(miniFAT))
					}
					for at := 0; at < len(v); at += cfbMiniSector {
						sector := make([]byte, cfbMiniSector)
						copy(sector, v[at:])
						mini, miniFAT = append(mini, sector...), append(miniFAT, uint32(len(miniFAT)+1))
					}
					if len(v) > 0 {
						miniFAT[len(miniFAT)-1] = cfbEnd
					}
					id = entry(name, cfbStream, start, len(v))
				} else {
					id = entry(name, cfbStream, store(v), len(v))
				}
			case tree:
				id = entry(name, cfbStorage, 0, 0)
				fill(id, v)
			}
			le.PutUint32(entries[link:], id)
			link = int(id)*cfbEntrySize + 72
		}
	}
	fill(0, root)
	words := func(list []uint32) []byte {
		var b []byte
		for _, w := range list {
			b = le.AppendUint32(b, w)
		}
		return b
	}
	le.PutUint32(entries[116:], store(mini))
	le.PutUint64(entries[120:], uint64(len(mini)))
	miniStart := store(words(miniFAT))
	directory := store(entries)
	header := make([]byte, 512)
	copy(header, magicOLE)
	le.PutUint16(header[30:], 9)
	le.PutUint32(header[48:], directory)
	le.PutUint32(header[60:], miniStart)
	le.PutUint32(header[68:], cfbEnd)
	for at := 76; at < 512; at += 4 {
		le.PutUint32(header[at:], cfbNone)
	}
	tables := (len(fat) + 127) / 127
	for i := range tables {
		le.PutUint32(header[76+4*i:], uint32(len(fat)))
		fat = append(fat, 0xFFFFFFFD)
	}
	table := words(fat)
	table = append(table, bytes.Repeat([]byte{0xFF}, tables*512-len(table))...)
	return slices.Concat(header, sectors, table)
}

// msgProps returns fixed-size properties after a header of header bytes, from pairs of number and
// type, and value.
func msgProps(header int, pairs ...uint64) []byte {
	b := make([]byte, header)
	for i := 0; i+1 < len(pairs); i += 2 {
		b = binary.LittleEndian.AppendUint32(b, uint32(pairs[i]))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, pairs[i+1])
	}
	return b
}

// msgText adds a text property to t.
func msgText(t tree, property int, text string) {
	t[fmt.Sprintf("__substg1.0_%04X001F", property)] = toUTF16(text, false)
}

func fileTime(t time.Time) uint64 { return uint64(t.Unix()*10_000_000 + 116444736000000000) }

func outlookMail(subject, body string) tree {
	t := tree{msgProperties: msgProps(msgTopHeader, msgSubmitted<<16|0x40, fileTime(time.Date(2024, 9, 2, 8, 0, 0, 0, time.UTC)))}
	msgText(t, msgSubject, subject)
	msgText(t, msgBody, body)
	msgText(t, msgSender, "Jürgen")
	msgText(t, msgSenderSMTP, "j@example.org")
	return t
}

func TestMSG(t *testing.T) {
	mail := outlookMail("Grüße", "Die Pumpe läuft.\r\n")
	for i, who := range []struct {
		name, address string
		kind          uint64
	}{{"Anna", "a@example.org", 1}, {"c@example.org", "c@example.org", 2}, {"Board", "/o=Firm/cn=board", 1}} {
		r := tree{msgProperties: msgProps(msgPartHeader, msgRecipientKind<<16|3, who.kind)}
		msgText(r, msgName, who.name)
		msgText(r, msgAddress, who.address)
		mail[fmt.Sprintf("__recip_version1.0_#%08d", i)] = r
	}
	// Too long for the mini stream.
	table := "id,name\n" + strings.Repeat("1,Pump of the best kind that there is in the world of pumps\n", 100)
	file := tree{msgProperties: msgProps(msgPartHeader), "__substg1.0_37010102": []byte(table)}
	msgText(file, msgLongName, "Preise für A.csv")
	mail["__attach_version1.0_#00000000"] = file
	inner := outlookMail("Inner", "The forwarded text.")
	inner[msgProperties] = inner[msgProperties].([]byte)[8:]
	mail["__attach_version1.0_#00000001"] = tree{msgProperties: msgProps(msgPartHeader), "__substg1.0_3701000D": inner}
	logo := tree{msgProperties: msgProps(msgPartHeader, msgHidden<<16|0xB, 1), "__substg1.0_37010102": []byte("x")}
	mail["__attach_version1.0_#00000002"] = logo
	photo := tree{msgProperties: msgProps(msgPartHeader), "__substg1.0_37010102": noise(900)}
	msgText(photo, msgLongName, "photo.bin")
	mail["__attach_version1.0_#00000003"] = photo

	p := parsed(t, "no name", string(compound(mail)))
	got := show(p)
	want := []string{"heading1: Grüße",
		"paragraph: From: Jürgen <j@example.org>\nTo: Anna <a@example.org>, Board\nCc: c@example.org\nDate: Mon, 02 Sep 2024 08:00:00 +0000",
		"paragraph: Die Pumpe läuft.", "heading2: Preise für A.csv"}
	if len(got) < 8 || !slices.Equal(got[:4], want) || !strings.HasPrefix(got[4], "table: id | name\n1 | Pump") {
		t.Errorf("got\n  %s", strings.Join(got, "\n  "))
	}
	if end := got[len(got)-3:]; end[0] != "heading2: Inner" || !strings.HasPrefix(end[1], "paragraph: From: Jürgen") || end[2] != "paragraph: The forwarded text." {
		t.Errorf("the end is %q", end)
	}
	if p.Title != "Grüße" || p.MediaType != "application/vnd.ms-outlook" || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "Attachment photo.bin was not read: ") {
		t.Errorf("title %q, media type %q, warnings %q", p.Title, p.MediaType, p.Warnings)
	}
}

func TestMSGInCodePages(t *testing.T) {
	russian, err := charmap.Windows1251.NewEncoder().String("Насос")
	if err != nil {
		t.Fatal(err)
	}
	page, err := charmap.KOI8R.NewEncoder().String("<p>Насосы были <b>проданы</b> во многих странах.</p>")
	if err != nil {
		t.Fatal(err)
	}
	mail := tree{msgProperties: msgProps(msgTopHeader, msgCodePage<<16|3, 1251, msgCharset<<16|3, 20866),
		"__substg1.0_0037001E": []byte(russian), "__substg1.0_10130102": []byte(page)}
	expect(t, parsed(t, "a.msg", string(compound(mail))), "heading1: Насос", "paragraph: Насосы были проданы во многих странах.")
}

// packedRTF is the example of MS-OXRTFCP 3.1.1.
var packedRTF = []byte("\x2d\x00\x00\x00\x2b\x00\x00\x00\x4c\x5a\x46\x75\xf1\xc5\xc7\xa7\x03\x00\x0a\x00\x72\x63\x70\x67\x31\x32\x35\x42\x32\x0a\xf3\x20\x68\x65\x6c\x09\x00\x20\x62\x77\x05\xb0\x6c\x64\x7d\x0a\x80\x0f\xa0")

func TestPackedRTF(t *testing.T) {
	got, err := unpackRTF(packedRTF, DefaultLimits())
	if want := "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	mail := tree{msgProperties: msgProps(msgTopHeader), "__substg1.0_10090102": packedRTF}
	expect(t, parsed(t, "a.msg", string(compound(mail))), "paragraph: hello world")
	// Every two bytes expand to seventeen.
	long := append(bytes.Clone(packedRTF[:16]), bytes.Repeat([]byte{0xFF, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F, 0x00, 0x0F}, 1000)...)
	if _, err := unpackRTF(long, Limits{Bytes: 50_000}); err == nil || !strings.Contains(err.Error(), schema.ReasonTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedCompoundFiles(t *testing.T) {
	good := compound(outlookMail("Subject", strings.Repeat("text ", 1000)))
	le := binary.LittleEndian
	change := func(do func(b []byte)) []byte {
		b := bytes.Clone(good)
		do(b)
		return b
	}
	// at returns an entry of the directory.
	at := func(b []byte, entry int) []byte { return b[(int(le.Uint32(b[48:]))+1)*512+entry*cfbEntrySize:] }
	table := func(b []byte) []byte { return b[(int(le.Uint32(b[76:]))+1)*512:] }
	nested := outlookMail("innermost", "text")
	for range maxMailDepth + 1 {
		outer := outlookMail("x", "")
		outer["__attach_version1.0_#00000000"] = tree{"__substg1.0_3701000D": nested}
		nested = outer
	}
	many := outlookMail("x", "y")
	for i := range 60 {
		many[fmt.Sprintf("__attach_version1.0_#%08d", i)] = tree{}
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		limits Limits
		want   string
		cause  string
	}{
		{"cut.msg", good[:700], Limits{}, schema.ReasonBroken, ""},
		{"sibling.msg", change(func(b []byte) { le.PutUint32(at(b, 2)[72:], 1) }), Limits{}, schema.ReasonBroken, "circle"},
		{"self.msg", change(func(b []byte) { le.PutUint32(at(b, 1)[68:], 1) }), Limits{}, schema.ReasonBroken, "circle"},
		{"outside.msg", change(func(b []byte) { le.PutUint32(at(b, 1)[72:], 1e6) }), Limits{}, schema.ReasonBroken, "out of the file"},
		{"chain.msg", change(func(b []byte) {
			start := le.Uint32(b[48:])
			le.PutUint32(table(b)[4*start:], start)
		}), Limits{}, schema.ReasonBroken, "circle"},
		{"difat.msg", change(func(b []byte) { le.PutUint32(b[68:], 0) }), Limits{}, "", ""},
		{"sectors.msg", change(func(b []byte) { b[30] = 20 }), Limits{}, schema.ReasonBroken, "sectors"},
		{"size.msg", change(func(b []byte) {
			for i := range 6 {
				le.PutUint32(at(b, i)[120:], 1<<31)
			}
		}), Limits{}, schema.ReasonBroken, "more than the file"},
		{"deep.msg", compound(nested), Limits{}, schema.ReasonTooLarge, "nested"},
		{"parts.msg", compound(many), Limits{Entries: 50}, schema.ReasonTooLarge, "50 parts"},
		{"text.msg", good, Limits{TextBytes: 1000}, schema.ReasonTooLarge, "text"},
		{"empty.msg", compound(tree{msgProperties: []byte{}}), Limits{}, schema.ReasonEmpty, ""},
		{"rtf.msg", compound(tree{msgProperties: []byte{}, "__substg1.0_10090102": []byte("too short")}), Limits{}, schema.ReasonBroken, "text of the e-mail"},
		{"a.doc", compound(tree{"WordDocument": []byte("x"), "ObjectPool": tree{msgProperties: []byte("an e-mail in it")}}), Limits{}, schema.ReasonUnsupported, "libreoffice-writer"},
		{"a.xls", compound(tree{"Workbook": []byte("x")}), Limits{}, schema.ReasonUnsupported, "convert-to xlsx"},
		{"a.ppt", compound(tree{"PowerPoint Document": []byte("x")}), Limits{}, schema.ReasonUnsupported, "convert-to pptx"},
		{"other.ole", compound(tree{"Contents": []byte("x")}), Limits{}, schema.ReasonUnsupported, ""},
		{"locked.docx", compound(tree{"EncryptedPackage": []byte("x")}), Limits{}, schema.ReasonEncrypted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse(t.Context(), tt.name, "", tt.data, tt.limits)
			switch {
			case tt.want == "":
				// Any reason is accepted.
			case err == nil:
				t.Errorf("it was read: %q", show(p))
			case !strings.HasPrefix(err.Error(), tt.want+":") || !strings.Contains(err.Error(), tt.cause) || strings.Contains(err.Error(), "panic"):
				t.Errorf("%v, want %s that says %q", err, tt.want, tt.cause)
			}
		})
	}
	// Streams that share sectors must not make a small file large.
	shared := tree{}
	for i := range 100 {
		shared[fmt.Sprintf("%03d", i)] = noise(5000)
	}
	b := compound(shared)
	first := le.Uint32(at(b, 1)[116:])
	for i := range 100 {
		le.PutUint32(at(b, i+1)[116:], first)
		le.PutUint32(at(b, i+1)[120:], uint32(len(b)/4))
	}
	c, err := openCompound(b)
	if err != nil {
		t.Fatal(err)
	}
	root, err := c.root()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err = c.read(root.streams["000"]); err != nil && strings.Contains(err.Error(), "more bytes than the file") {
			return
		}
	}
	t.Errorf("ten times a quarter of the file was read: %v", err)
}

func FuzzMSG(f *testing.F) {
	mail := outlookMail("Grüße", "text")
	mail["__recip_version1.0_#00000000"] = tree{msgProperties: msgProps(msgPartHeader, msgRecipientKind<<16|3, 1)}
	mail["__attach_version1.0_#00000000"] = tree{"__substg1.0_3701000D": outlookMail("Inner", "text")}
	mail["__attach_version1.0_#00000001"] = tree{"__substg1.0_37010102": []byte("a,b\n1,2\n")}
	fuzz(f, "a.msg", nil, string(compound(mail)), string(compound(tree{msgProperties: []byte{}, "__substg1.0_10090102": packedRTF})))
}

func FuzzPackedRTF(f *testing.F) {
	f.Add(packedRTF[16:])
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := unpackRTF(append(bytes.Clone(packedRTF[:16]), data...), Limits{Bytes: 1 << 20})
		if err == nil && len(out) > 9*len(data) {
			t.Errorf("%d bytes of %d", len(out), len(data))
		}
	})
}
