package parse

// MBOX: the messages of a mailbox one after the other, each parsed like a file of its own (RFC
// 4155; with the quoting of mboxrd, which includes that of mboxo).

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/sluice-rag/sluice/schema"
)

// fromLine matches the line that begins a message, with its sender and date. Lines of prose that
// begin with "From" have no such date.
var fromLine = regexp.MustCompile(`^From \S.*\d{1,2}:\d{2}.*\b(19|20)\d{2}\b`)

// quotedFrom matches a quoted line of text, which would otherwise begin a message.
var quotedFrom = regexp.MustCompile(`(?m)^>(>*From )`)

// looksMBOX reports whether a file begins with the first message of a mailbox.
func looksMBOX(body []byte) bool {
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	return fromLine.Match(line) && headerLine(rest)
}

// headerLine reports whether b begins with a header line.
func headerLine(b []byte) bool {
	line, _, _ := bytes.Cut(b[:min(len(b), 1000)], []byte("\n"))
	name, _, found := bytes.Cut(line, []byte(":"))
	return found && len(name) > 0 && !bytes.ContainsAny(name, " \t")
}

// nextMessage returns the first message of a mailbox without its From line, and the rest of the
// mailbox.
func nextMessage(box []byte) (message, rest []byte) {
	_, box, _ = bytes.Cut(box, []byte("\n"))
	blank := false
	for at := 0; at < len(box); {
		line, after, _ := bytes.Cut(box[at:], []byte("\n"))
		if blank && bytes.HasPrefix(line, []byte("From ")) && fromLine.Match(line) && headerLine(after) {
			return box[:at], box[at:]
		}
		blank = len(bytes.TrimRight(line, "\r")) == 0
		at = len(box) - len(after)
	}
	return box, nil
}

func parseMBOX(d *document, data []byte) error {
	m := mailWalker{d: d, box: true}
	rest := data[bytes.Index(data, []byte("From ")):]
	for n := 1; len(rest) > 0; n++ {
		if n > d.limits.Entries {
			return fail(schema.ReasonTooLarge, "The mailbox has more than %d messages. Split it, or raise the limit.", d.limits.Entries)
		}
		var message []byte
		message, rest = nextMessage(rest)
		err := m.message(quotedFrom.ReplaceAll(message, []byte("$1")), 0, fmt.Sprintf("Message %d", n))
		var e *Error
		switch {
		case errors.As(err, &e) && e.Reason.Code == schema.ReasonBroken:
			d.warn(fmt.Sprintf("Message %d was not read: %s", n, e.Reason.Message))
		case errors.As(err, &e) && d.err == nil:
			return fail(e.Reason.Code, "Message %d: %s", n, e.Reason.Message).because(e.cause)
		case err != nil:
			return err
		}
	}
	return d.err
}
