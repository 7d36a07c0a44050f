package main

// This file writes a source as a DOCX: the smallest Office Open XML package that
// word processors open without complaint, with real heading styles, numbering
// definitions for lists, and a table.

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

const (
	xmlHead = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	wordNS  = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	bulletN = 1 // the numbering definition of bulleted lists; each ordered list has its own after it
)

const contentTypes = xmlHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
	`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
	`<Default Extension="xml" ContentType="application/xml"/>` +
	`<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>` +
	`<Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/>` +
	`<Override PartName="/word/numbering.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.numbering+xml"/>` +
	`<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>` +
	`</Types>`

const packageRels = xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
	`<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>` +
	`<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" Target="docProps/core.xml"/>` +
	`</Relationships>`

const documentRels = xmlHead + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
	`<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>` +
	`<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/numbering" Target="numbering.xml"/>` +
	`</Relationships>`

const styles = xmlHead + `<w:styles ` + wordNS + `>` +
	`<w:docDefaults><w:rPrDefault><w:rPr><w:rFonts w:ascii="Calibri" w:hAnsi="Calibri"/><w:sz w:val="22"/><w:lang w:val="en-GB"/></w:rPr></w:rPrDefault>` +
	`<w:pPrDefault><w:pPr><w:spacing w:after="140" w:line="264" w:lineRule="auto"/></w:pPr></w:pPrDefault></w:docDefaults>` +
	`<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>` +
	`<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:rPr><w:b/><w:sz w:val="40"/></w:rPr></w:style>` +
	`<w:style w:type="paragraph" w:styleId="Subtitle"><w:name w:val="Subtitle"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:rPr><w:color w:val="5A5A5A"/></w:rPr></w:style>` +
	`<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:pPr><w:keepNext/><w:spacing w:before="320"/><w:outlineLvl w:val="0"/></w:pPr><w:rPr><w:b/><w:sz w:val="30"/></w:rPr></w:style>` +
	`<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:pPr><w:keepNext/><w:spacing w:before="220"/><w:outlineLvl w:val="1"/></w:pPr><w:rPr><w:b/><w:sz w:val="25"/></w:rPr></w:style>` +
	`<w:style w:type="paragraph" w:styleId="Heading3"><w:name w:val="heading 3"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:pPr><w:keepNext/><w:outlineLvl w:val="2"/></w:pPr><w:rPr><w:b/></w:rPr></w:style>` +
	`<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/><w:basedOn w:val="Normal"/><w:qFormat/><w:pPr><w:ind w:left="720"/></w:pPr></w:style>` +
	`<w:style w:type="table" w:styleId="TableGrid"><w:name w:val="Table Grid"/><w:tblPr><w:tblBorders>` +
	`<w:top w:val="single" w:sz="4"/><w:left w:val="single" w:sz="4"/><w:bottom w:val="single" w:sz="4"/><w:right w:val="single" w:sz="4"/><w:insideH w:val="single" w:sz="4"/><w:insideV w:val="single" w:sz="4"/>` +
	`</w:tblBorders></w:tblPr></w:style>` +
	`</w:styles>`

func makeDOCX(content []byte) ([]byte, error) {
	src, err := parseSource(content)
	if err != nil {
		return nil, err
	}
	body, orderedLists := documentBody(src)
	parts := []struct{ name, content string }{
		{"[Content_Types].xml", contentTypes},
		{"_rels/.rels", packageRels},
		{"docProps/core.xml", coreProperties(src)},
		{"word/_rels/document.xml.rels", documentRels},
		{"word/document.xml", xmlHead + `<w:document ` + wordNS + `><w:body>` + body +
			`<w:sectPr><w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="1440" w:right="1440" w:bottom="1440" w:left="1440" w:header="708" w:footer="708" w:gutter="0"/></w:sectPr>` +
			`</w:body></w:document>`},
		{"word/numbering.xml", numbering(orderedLists)},
		{"word/styles.xml", styles},
	}
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, part := range parts {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: part.name, Method: zip.Deflate, Modified: src.date})
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", part.name, err)
		}
		if _, err := w.Write([]byte(part.content)); err != nil {
			return nil, fmt.Errorf("write %s: %w", part.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("close the package: %w", err)
	}
	return out.Bytes(), nil
}

// documentBody returns the paragraphs and tables of the source, and how many
// ordered lists they number.
func documentBody(src *source) (body string, orderedLists int) {
	var b strings.Builder
	writeParagraph(&b, `<w:pStyle w:val="Title"/>`, cell{{text: src.title}})
	if src.subject != "" {
		writeParagraph(&b, `<w:pStyle w:val="Subtitle"/>`, cell{{text: src.subject}})
	}
	for _, block := range src.blocks {
		switch block.kind {
		case heading:
			writeParagraph(&b, fmt.Sprintf(`<w:pStyle w:val="Heading%d"/>`, min(block.level, 3)), block.rows[0][0])
		case paragraph:
			writeParagraph(&b, "", block.rows[0][0])
		case bullets, numbers:
			list := bulletN
			if block.kind == numbers {
				orderedLists++
				list = bulletN + orderedLists
			}
			for _, row := range block.rows {
				writeParagraph(&b, fmt.Sprintf(`<w:pStyle w:val="ListParagraph"/><w:numPr><w:ilvl w:val="0"/><w:numId w:val="%d"/></w:numPr>`, list), row[0])
			}
		case table:
			writeTable(&b, block.rows)
		}
	}
	return b.String(), orderedLists
}

func writeParagraph(b *strings.Builder, properties string, c cell) {
	b.WriteString(`<w:p>`)
	if properties != "" {
		b.WriteString(`<w:pPr>` + properties + `</w:pPr>`)
	}
	for _, s := range c {
		b.WriteString(`<w:r>`)
		if s.bold {
			b.WriteString(`<w:rPr><w:b/></w:rPr>`)
		}
		b.WriteString(`<w:t xml:space="preserve">` + escape(s.text) + `</w:t></w:r>`)
	}
	b.WriteString(`</w:p>`)
}

func writeTable(b *strings.Builder, rows [][]cell) {
	const width = 9000 // twentieths of a point
	column := width / len(rows[0])
	fmt.Fprintf(b, `<w:tbl><w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="%d" w:type="dxa"/></w:tblPr><w:tblGrid>`, width)
	for range rows[0] {
		fmt.Fprintf(b, `<w:gridCol w:w="%d"/>`, column)
	}
	b.WriteString(`</w:tblGrid>`)
	for i, row := range rows {
		b.WriteString(`<w:tr>`)
		if i == 0 {
			b.WriteString(`<w:trPr><w:tblHeader/></w:trPr>`)
		}
		for _, c := range row {
			fmt.Fprintf(b, `<w:tc><w:tcPr><w:tcW w:w="%d" w:type="dxa"/></w:tcPr>`, column)
			if i == 0 {
				c = cell{{text: c.String(), bold: true}}
			}
			writeParagraph(b, "", c)
			b.WriteString(`</w:tc>`)
		}
		b.WriteString(`</w:tr>`)
	}
	// Word needs a paragraph between a table and whatever follows it.
	b.WriteString(`</w:tbl><w:p/>`)
}

func numbering(orderedLists int) string {
	var b strings.Builder
	b.WriteString(xmlHead + `<w:numbering ` + wordNS + `>`)
	level := `<w:abstractNum w:abstractNumId="%d"><w:multiLevelType w:val="singleLevel"/><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="%s"/><w:lvlText w:val="%s"/><w:lvlJc w:val="left"/><w:pPr><w:ind w:left="720" w:hanging="360"/></w:pPr></w:lvl></w:abstractNum>`
	fmt.Fprintf(&b, level, bulletN, "bullet", "\u2022")
	for i := range orderedLists {
		fmt.Fprintf(&b, level, bulletN+1+i, "decimal", "%1.")
	}
	for i := range orderedLists + 1 {
		fmt.Fprintf(&b, `<w:num w:numId="%d"><w:abstractNumId w:val="%d"/></w:num>`, bulletN+i, bulletN+i)
	}
	b.WriteString(`</w:numbering>`)
	return b.String()
}

func coreProperties(src *source) string {
	date := src.date.Format(time.RFC3339)
	return xmlHead + `<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">` +
		`<dc:title>` + escape(src.title) + `</dc:title><dc:subject>` + escape(src.subject) + `</dc:subject><dc:creator>` + escape(src.author) + `</dc:creator>` +
		`<dcterms:created xsi:type="dcterms:W3CDTF">` + date + `</dcterms:created><dcterms:modified xsi:type="dcterms:W3CDTF">` + date + `</dcterms:modified>` +
		`</cp:coreProperties>`
}

func escape(s string) string {
	var b bytes.Buffer
	// Writing to a buffer cannot fail.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
