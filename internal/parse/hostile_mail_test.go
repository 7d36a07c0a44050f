package parse

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// hostileCompound returns compound files with wrong tables: e-mails of Outlook and old Office
// files.
func hostileCompound() []hostileFile {
	var list []hostileFile
	good := compound(tree{msgProperties: msgProps(32), "__substg1.0_0037001F": toUTF16("Subject", false), "__substg1.0_1000001F": toUTF16(strings.Repeat("Some words. ", 500), false)})
	le := binary.LittleEndian
	add := func(name string, edit func(b []byte)) {
		list = append(list, hostileFile{"msg " + name, edited(good, edit)})
	}
	table := func(b []byte) int { return (int(le.Uint32(b[76:])) + 1) * 512 } // offset of the FAT
	directory := func(b []byte) int { return (int(le.Uint32(b[48:])) + 1) * 512 }
	add("that is right", func([]byte) {})
	add("whose sectors follow themselves", func(b []byte) {
		for i := range 20 {
			le.PutUint32(b[table(b)+4*i:], uint32(i))
		}
	})
	add("whose sectors run in a circle", func(b []byte) {
		for i := range 20 {
			le.PutUint32(b[table(b)+4*i:], uint32((i+1)%20))
		}
	})
	add("whose sectors lead out of it", func(b []byte) {
		for i := range 20 {
			le.PutUint32(b[table(b)+4*i:], 1<<30)
		}
	})
	add("whose table of tables is itself", func(b []byte) { le.PutUint32(b[68:], 0); le.PutUint32(b[72:], 1<<31) })
	add("whose table of tables runs in a circle", func(b []byte) {
		le.PutUint32(b[68:], 1)
		le.PutUint32(b[1024+508:], 1)
	})
	add("with 109 tables that are one", func(b []byte) {
		for i := range 109 {
			le.PutUint32(b[76+4*i:], le.Uint32(b[76:]))
		}
	})
	add("whose table is its header", func(b []byte) { le.PutUint32(b[76:], 0xFFFFFFFF) })
	add("whose directory is nowhere", func(b []byte) { le.PutUint32(b[48:], 1<<31) })
	add("whose directory is its table", func(b []byte) { le.PutUint32(b[48:], le.Uint32(b[76:])) })
	add("whose small table is nowhere", func(b []byte) { le.PutUint32(b[60:], 1<<31) })
	add("whose entries are their own children", func(b []byte) {
		for i := range 4 {
			at := directory(b) + i*cfbEntrySize
			for _, link := range []int{68, 72, 76} {
				le.PutUint32(b[at+link:], uint32(i))
			}
		}
	})
	add("whose entries are one another's siblings", func(b []byte) {
		for i := range 4 {
			le.PutUint32(b[directory(b)+i*cfbEntrySize+68:], uint32((i+1)%4))
		}
	})
	add("whose entries lead out of it", func(b []byte) { le.PutUint32(b[directory(b)+76:], 1<<20) })
	add("whose streams have 2^63 bytes", func(b []byte) {
		for i := range 4 {
			le.PutUint64(b[directory(b)+i*cfbEntrySize+120:], 1<<63-1)
		}
	})
	add("whose names have 65,535 letters", func(b []byte) {
		for i := range 4 {
			le.PutUint16(b[directory(b)+i*cfbEntrySize+64:], 65535)
		}
	})
	add("of sectors of 2^31 bytes", func(b []byte) { le.PutUint16(b[30:], 31) })
	add("of sectors of one byte", func(b []byte) { le.PutUint16(b[30:], 0) })
	add("of version 65,535", func(b []byte) { le.PutUint16(b[26:], 65535) })
	list = append(list, hostileFile{"msg cut in its table", good[:len(good)-300]}, hostileFile{"msg of a header", good[:512]}, hostileFile{"msg of half a header", good[:100]})
	inner := tree{msgProperties: msgProps(24), "__substg1.0_1000001F": toUTF16("Deep.", false)}
	for range 60 {
		inner = tree{msgProperties: msgProps(24), "__attach_version1.0_#00000000": tree{msgProperties: msgProps(8, 0x37050003, 5), "__substg1.0_3701000D": inner}}
	}
	list = append(list, hostileFile{"msg in 60 others", compound(inner)},
		hostileFile{"doc of noise", compound(tree{"WordDocument": noise(20_000)})},
		hostileFile{"xls of records without an end", compound(tree{"Workbook": []byte(strings.Repeat("\x09\x08\x00\x00", 5000))})},
		hostileFile{"ppt of nothing", compound(tree{"PowerPoint Document": []byte{}})})
	return list
}

func hostileMail() []hostileFile {
	var list []hostileFile
	add := func(name, data string) { list = append(list, hostileFile{name, []byte(data)}) }
	const head = "From: a@example.org\r\nTo: b@example.org\r\nSubject: News\r\nMIME-Version: 1.0\r\n"
	deep := "Content-Type: text/plain\r\n\r\nSome words.\r\n"
	for i := range 300 {
		deep = fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n%s\r\n--b%d--\r\n", i, i, deep, i)
	}
	add("nested 300 deep.eml", head+deep)
	add("without a boundary.eml", head+"Content-Type: multipart/mixed\r\n\r\nSome words.\r\n")
	add("with a boundary of nothing.eml", head+"Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\n\r\nSome words.\r\n----\r\n")
	add("with a boundary that never comes.eml", head+"Content-Type: multipart/mixed; boundary=never\r\n\r\nSome words.\r\n")
	add("with a boundary that never ends.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSome words.\r\n")
	add("with a boundary of 1 MB.eml", head+"Content-Type: multipart/mixed; boundary="+strings.Repeat("b", 1<<20)+"\r\n\r\nSome words.\r\n")
	add("with boundaries alone.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n"+strings.Repeat("--b\r\n\r\n", 100_000)+"--b--\r\n")
	add("with a part that has its boundary.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSome words.\r\n--b--\r\n--b--\r\n")
	add("with 100,000 headers.eml", head+strings.Repeat("X-A: b\r\n", 100_000)+"\r\nSome words.\r\n")
	add("with a header of 8 MB.eml", head+"X-A: "+strings.Repeat("b", 8<<20)+"\r\n\r\nSome words.\r\n")
	add("with a header folded 100,000 times.eml", head+"X-A: b"+strings.Repeat("\r\n b", 100_000)+"\r\n\r\nSome words.\r\n")
	add("of headers alone.eml", head)
	add("with base64 that is none.eml", head+"Content-Transfer-Encoding: base64\r\n\r\n%%%%\r\n")
	add("with base64 of noise.eml", head+"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n"+strings.Repeat("/+/+", 5000)+"\r\n")
	add("in an encoding that is not.eml", head+"Content-Type: text/plain; charset=utf-99\r\n\r\nSome words.\r\n")
	add("in a transfer encoding that is not.eml", head+"Content-Transfer-Encoding: x-none\r\n\r\nSome words.\r\n")
	add("quoted-printable that is none.eml", head+"Content-Transfer-Encoding: quoted-printable\r\n\r\nSome =ZZ words =\r\n=")
	add("with a subject of words in a word.eml", "From: a@example.org\r\nTo: b@example.org\r\nSubject: "+strings.Repeat("=?utf-8?B?", 10_000)+"\r\n\r\nSome words.\r\n")
	add("with addresses by the thousand.eml", head+"Cc: "+strings.Repeat("a@example.org, ", 50_000)+"b@example.org\r\n\r\nSome words.\r\n")
	add("with groups of addresses in groups.eml", head+"Cc: "+strings.Repeat("a:(", 50_000)+"\r\n\r\nSome words.\r\n")
	attached := ""
	for range 3000 {
		attached += "--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nSome words.\r\n"
	}
	add("with 3,000 attachments.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n"+attached+"--b--\r\n")
	add("with an attachment whose name leads out.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=\"../../etc/passwd\"\r\n\r\nSome words.\r\n--b--\r\n")
	message := head + "Content-Type: text/plain\r\n\r\nSome words.\r\n"
	for range 60 {
		message = head + "Content-Type: message/rfc822\r\n\r\n" + message
	}
	add("in 60 others.eml", message)
	add("whose attachment is a bomb.eml", head+"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/zip\r\nContent-Disposition: attachment; filename=a.zip\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"+string(bomb("a.txt", 100<<20))+"\r\n--b--\r\n")

	const from = "From a@example.org Mon Jan  1 00:00:00 2024\n"
	add("of beginnings.mbox", strings.Repeat(from, 50_000))
	add("of beginnings and headers.mbox", strings.Repeat(from+"From: a@example.org\nSubject: a\n\n", 5000))
	add("without an end.mbox", from+"From: a@example.org\nTo: b@example.org\nSubject: a\n\nSome words.\n"+from)
	add("of a message without a body.mbox", from+"From: a@example.org\nTo: b@example.org\nSubject: a")
	add("of a line of 8 MB.mbox", from+"From: a@example.org\nTo: b@example.org\nSubject: a\n\n"+strings.Repeat("long ", 8<<18))
	add("of mailboxes in mailboxes.mbox", from+"From: a@example.org\nTo: b@example.org\nSubject: a\nContent-Type: application/mbox\n\n"+strings.Repeat(">"+from+"From: a@example.org\nTo: b@example.org\nSubject: a\n\nSome words.\n", 500))
	add("of times that are none.mbox", "From a@example.org Mon Jan 99 99:99:99 9999\nFrom: a@example.org\nTo: b@example.org\nSubject: a\n\nSome words.\n")
	return list
}
