package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/text/unicode/norm"
)

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table prints rows in aligned columns.
func table(header string, rows func(row func(cells ...any))) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	})
	return w.Flush()
}

// printable replaces control characters in text of a document, which could move the cursor, or
// worse.
func printable(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s))
}

// printList prints a list: as one JSON array, or as a table.
func printList[T any](asJSON bool, items iter.Seq2[T, error], header string, cells func(T) []any) error {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return err
		}
		all = append(all, item)
	}
	if asJSON {
		return printJSON(all)
	}
	return table(header, func(row func(...any)) {
		for _, item := range all {
			row(cells(item)...)
		}
	})
}

// indent writes text wrapped to width columns, each line after prefix.
func indent(w io.Writer, prefix, text string, width int) {
	line := ""
	for _, word := range strings.Fields(printable(text)) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			fmt.Fprintln(w, prefix+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		fmt.Fprintln(w, prefix+line)
	}
}

func bytesText(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, 0
	for value >= unit && suffix < 3 {
		value, suffix = value/unit, suffix+1
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGT"[suffix])
}

// plural formats a count with its noun: 1 document, 2 documents.
func plural[N int | int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
