package parse

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

const mboxFrom = "From j@example.org Mon Sep  2 10:00:00 2024\n"

// mailbox returns a mailbox of messages, each with its From line.
func mailbox(messages ...string) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(mboxFrom + strings.ReplaceAll(m, "\r\n", "\n") + "\n\n")
	}
	return b.String()
}

func TestMBOX(t *testing.T) {
	who := "paragraph: From: Jürgen <j@example.org>\nTo: a@example.org\nDate: Mon, 2 Sep 2024 10:00:00 +0200"
	attached := base64.StdEncoding.EncodeToString([]byte("id,name\n1,Pump\n"))
	box := mailbox(
		mailText("Subject: =?iso-8859-1?q?Gr=FC=DFe?=\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit",
			"The pump l\xe4uft.\n\n>From here on it is quoted.\n\n>>From twice.\n\nFrom now on at 10:00 we write 2024.\n\nFrom the start: it was so."),
		mailText("Content-Type: multipart/mixed; boundary=B", fmt.Sprintf("--B\n\nSee below.\n--B\nContent-Type: text/csv; name=parts.csv\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n%s\n--B--", attached)),
	)
	for _, box := range []string{box, strings.ReplaceAll(box, "\n", "\r\n")} {
		p := parsed(t, "no name", box)
		expect(t, p, "heading1: Grüße (2024-09-02 10:00)", who,
			"paragraph: The pump läuft.", "paragraph: From here on it is quoted.", "paragraph: >From twice.",
			"paragraph: From now on at 10:00 we write 2024.", "paragraph: From the start: it was so.",
			"heading1: Message 2 (2024-09-02 10:00)", who, "paragraph: See below.", "heading2: parts.csv", "table: id | name\n1 | Pump")
		if p.MediaType != "application/mbox" || p.Title != "" {
			t.Errorf("media type %q, title %q", p.MediaType, p.Title)
		}
	}
	// Lines that begin like a message, but have no time, or no empty line before them.
	quoting := parsed(t, "a.mbox", mailbox(mailText("Subject: x", "He wrote:\nFrom a@example.org Mon Sep  2 10:00:00 2024\nSubject: y\n\nFrom the start we knew\nNote: it was so.")))
	if got := show(quoting); len(got) != 4 || !strings.Contains(got[2], "Subject: y") || !strings.Contains(got[3], "Note: it was so.") {
		t.Errorf("got %q", got)
	}
	// Prose is not a mailbox.
	expect(t, parsed(t, "a.txt", "From 10:00 on 2 May 2024 it was late.\n\nGo home."), "paragraph: From 10:00 on 2 May 2024 it was late.", "paragraph: Go home.")
}

func TestRefusedMailboxes(t *testing.T) {
	message := mailText("Subject: x", "text")
	for _, tt := range []struct {
		name   string
		data   string
		limits Limits
		want   string
		says   string
	}{
		{"many.mbox", mailbox(message, message, message), Limits{Entries: 2}, schema.ReasonTooLarge, "2 messages"},
		{"text.mbox", mailbox(message, mailText("", strings.Repeat("word ", 2000))), Limits{TextBytes: 4000}, schema.ReasonTooLarge, "text"},
		{"parts.mbox", mailbox(message, mailText("Content-Type: multipart/mixed; boundary=B", strings.Repeat("--B\n\ntext\n", 100)+"--B--")), Limits{Entries: 50}, schema.ReasonTooLarge, "Message 2: "},
		{"broken.mbox", mboxFrom + "Subject: x\nno colon\n", Limits{}, schema.ReasonEmpty, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := refused(t, tt.name, []byte(tt.data), tt.limits); r.Code != tt.want || !strings.Contains(r.Message, tt.says) {
				t.Errorf("reason %+v, want %s that says %q", r, tt.want, tt.says)
			}
		})
	}
	// A damaged message does not affect the others.
	p := parsed(t, "a.mbox", mailbox("Subject: x\nno colon\n", message))
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "Message 1 was not read: ") || p.Blocks[len(p.Blocks)-1].Text != "text" {
		t.Errorf("warnings %q, blocks %v", p.Warnings, show(p))
	}
}

// TestNestedFilesAreBounded nests e-mails as attachments, many levels deep.
func TestNestedFilesAreBounded(t *testing.T) {
	mail := mailText("Subject: innermost", "text")
	for range maxEnclosed + 2 {
		mail = mailText("Subject: x\nContent-Type: multipart/mixed; boundary=B", "--B\nContent-Type: application/octet-stream; name=a.eml\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n"+base64.StdEncoding.EncodeToString([]byte(mail))+"\n--B--")
	}
	p := parsed(t, "a.eml", mail)
	if !strings.Contains(strings.Join(p.Warnings, "\n"), fmt.Sprintf("more than %d deep", maxEnclosed)) || strings.Contains(strings.Join(show(p), "\n"), "innermost") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

func FuzzMBOX(f *testing.F) {
	fuzz(f, "a.mbox", func(body []byte) []byte { return append([]byte(mboxFrom), body...) },
		"Subject: a\n\n>From b\n\n"+mboxFrom+"Subject: c\n\nd\n", "Content-Type: multipart/alternative; boundary=B\n\n--B\n\na\n--B\nContent-Type: text/html\n\n<p>b\n--B--\n")
}
