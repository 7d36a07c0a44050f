module github.com/sluice-rag/sluice/tools/examples

go 1.26.0

require (
	codeberg.org/go-pdf/fpdf v0.12.0
	github.com/yuin/goldmark v1.8.7
	golang.org/x/text v0.43.0
)
