package parse

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// mailText returns an e-mail: header lines, an empty line, and a body, with CRLF line ends.
func mailText(header, body string) string {
	return strings.ReplaceAll("From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\nTo: a@example.org\nDate: Mon, 2 Sep 2024 10:00:00 +0200\nMIME-Version: 1.0\n"+header+"\n\n"+body, "\n", "\r\n")
}

func TestEML(t *testing.T) {
	who := "paragraph: From: Jürgen <j@example.org>\nTo: a@example.org\nDate: Mon, 2 Sep 2024 10:00:00 +0200"
	plain := parsed(t, "no name", mailText("Subject: =?iso-8859-1?q?Gr=FC=DFe?=\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable",
		"Die Pumpe l=E4uft wieder, und das seit ges=\ntern.\n"))
	expect(t, plain, "heading1: Grüße", who, "paragraph: Die Pumpe läuft wieder, und das seit gestern.")
	if plain.Title != "Grüße" || plain.MediaType != "message/rfc822" {
		t.Errorf("title %q, media type %q", plain.Title, plain.MediaType)
	}

	attached := base64.StdEncoding.EncodeToString(docx(map[string]string{"word/document.xml": document1("<w:p><w:r><w:t>Text of the contract.</w:t></w:r></w:p>")}))
	inner := mailText("Subject: Inner", "The forwarded text.")
	p := parsed(t, "mail.eml", mailText("Subject: Contract\nContent-Type: multipart/mixed; boundary=B", fmt.Sprintf(`--B
Content-Type: multipart/alternative; boundary="C"

--C
Content-Type: text/plain

See the attachment.
--C
Content-Type: text/html; charset=utf-8

<p>See the <b>attachment</b>.</p>
--C--
--B
Content-Type: application/octet-stream; name="=?utf-8?q?Vertrag_f=C3=BCr_A.docx?="
Content-Disposition: attachment
Content-Transfer-Encoding: base64

%s
--B
Content-Type: image/png
Content-Id: <logo>
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--B
Content-Type: image/png
Content-Disposition: attachment; filename="photo.png"
Content-Transfer-Encoding: base64

iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
--B
Content-Type: message/rfc822

%s
--B--`, attached, strings.ReplaceAll(inner, "\r\n", "\n"))))
	expect(t, p, "heading1: Contract", who, "paragraph: See the attachment.",
		"heading2: Vertrag für A.docx", "paragraph: Text of the contract.",
		"heading2: Inner", who, "paragraph: The forwarded text.")
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "Attachment photo.png was not read: ") {
		t.Errorf("warnings %q", p.Warnings)
	}

	web := parsed(t, "web.eml", mailText("Subject: News\nContent-Type: multipart/alternative; boundary=B", "--B\n\nOpen it in a browser.\n--B\nContent-Type: text/html\n\n<h2>Pumps</h2><p>"+strings.Repeat("They were sold. ", 10)+"</p>\n--B--"))
	expect(t, web, "heading1: News", who, "heading2: Pumps", "paragraph: "+strings.TrimSpace(strings.Repeat("They were sold. ", 10)))

	// Text that only looks like a header, and prose.
	expect(t, parsed(t, "a.txt", "Note: it is late.\n\nGo home."), "paragraph: Note: it is late.", "paragraph: Go home.")
}

func TestRefusedMail(t *testing.T) {
	nested := "deep"
	for i := range 30 {
		nested = fmt.Sprintf("Content-Type: multipart/mixed; boundary=B%d\n\n--B%d\n%s\n--B%d--", i, i, nested, i)
	}
	parts := strings.Repeat("--B\n\ntext\n", 100)
	for _, tt := range []struct {
		name, data string
		limits     Limits
		want       string
	}{
		{"prose.eml", "Only prose, no header\r\nat all.\r\n", Limits{}, schema.ReasonBroken},
		{"deep.eml", strings.Replace(mailText("", ""), "MIME-Version: 1.0\r\n\r\n\r\n", "MIME-Version: 1.0\r\n", 1) + strings.ReplaceAll(nested, "\n", "\r\n"), Limits{}, schema.ReasonTooLarge},
		{"parts.eml", mailText("Content-Type: multipart/mixed; boundary=B", parts+"--B--"), Limits{Entries: 50}, schema.ReasonTooLarge},
		{"text.eml", mailText("Subject: x", strings.Repeat("word ", 2000)), Limits{TextBytes: 4000}, schema.ReasonTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := refused(t, tt.name, []byte(tt.data), tt.limits); r.Code != tt.want {
				t.Errorf("reason %+v, want %s", r, tt.want)
			}
		})
	}
	// A truncated attachment does not lose the rest.
	cut := parsed(t, "cut.eml", mailText("Subject: Cut\nContent-Type: multipart/mixed; boundary=B", "--B\n\nThe first part.\n--B\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=a.pdf\nContent-Transfer-Encoding: base64\n\nJVBERi0x"))
	if got := cut.Blocks[len(cut.Blocks)-1].Text; got != "The first part." || len(cut.Warnings) == 0 {
		t.Errorf("last block %q, warnings %q", got, cut.Warnings)
	}
}

func FuzzEML(f *testing.F) {
	fuzz(f, "a.eml", nil, mailText("Subject: =?utf-8?b?w6Q=?=\nContent-Type: multipart/mixed; boundary=B", "--B\nContent-Type: text/html\n\n<p>a</p>\n--B\nContent-Disposition: attachment; filename=a.csv\n\na,b\n1,2\n--B--"),
		mailText("Content-Transfer-Encoding: base64", "dGV4dA=="))
}
