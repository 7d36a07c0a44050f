package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/parse"
	"github.com/sluice-rag/sluice/schema"
)

// archive is a ZIP file whose entries are separate documents.
type archive struct {
	path  string
	files []parse.ArchiveFile
	err   error // why it cannot be read
}

// openArchive opens a file with the extension .zip. It returns false if the file is no archive, or
// if it is a document in a ZIP-based format.
func openArchive(path string, info fs.FileInfo) (archive, bool) {
	a := archive{path: path}
	if !strings.EqualFold(filepath.Ext(path), ".zip") || !info.Mode().IsRegular() {
		return a, false
	}
	// The file stays open for as long as its entries may be sent or sent again. The runtime closes
	// it when no entry refers to it.
	f, err := os.Open(path)
	if err != nil {
		a.err = err
		return a, true
	}
	a.files, a.err = parse.OpenArchive(f, info.Size(), parse.Limits{})
	if a.err != nil || len(a.files) == 0 {
		_ = f.Close()
	}
	return a, a.err != nil || len(a.files) > 0
}

// walk passes the entries to yieldSource in the archive's order.
func (a archive) walk(common schema.Attributes, yieldSource func(source, error) bool) bool {
	if a.err != nil {
		return yieldSource(source{}, &unreadable{a.path, plain(a.err)})
	}
	for _, f := range a.files {
		s := source{externalID: filepath.Base(a.path) + "/" + f.Path, fileName: f.Path, attributes: common, open: f.Open}
		err := f.Refused
		if err == nil {
			err = s.hash()
		}
		if err != nil {
			err = &unreadable{a.path + "/" + f.Path, plain(err)}
		}
		if !yieldSource(s, err) {
			return false
		}
	}
	return true
}

// plain returns the message of a parse error, without its code and cause.
func plain(err error) error {
	var e *parse.Error
	if errors.As(err, &e) {
		return errors.New(e.Reason.Message)
	}
	return err
}
