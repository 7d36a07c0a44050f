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

// archive is a ZIP file whose entries are documents of their own.
type archive struct {
	path  string
	files []parse.ArchiveFile
	err   error // why it can't be read
}

// openArchive opens a file that is named as an archive. It reports false for one that is none, or a
// document that is a ZIP file itself.
func openArchive(path string, info fs.FileInfo) (archive, bool) {
	a := archive{path: path}
	if !strings.EqualFold(filepath.Ext(path), ".zip") || !info.Mode().IsRegular() {
		return a, false
	}
	// It stays open for as long as its entries may be sent, and sent again; when
	// none is left the runtime closes it.
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

// walk gives the entries in the archive's order.
func (a archive) walk(common schema.Attributes, give func(source, error) bool) bool {
	if a.err != nil {
		return give(source{}, &unreadable{a.path, plain(a.err)})
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
		if !give(s, err) {
			return false
		}
	}
	return true
}

// plain is what a reason says, without its code and cause.
func plain(err error) error {
	var e *parse.Error
	if errors.As(err, &e) {
		return errors.New(e.Reason.Message)
	}
	return err
}
