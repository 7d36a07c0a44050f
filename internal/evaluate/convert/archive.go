package convert

// BEIR's own sets (Thakur et al. 2021): an archive or a folder. Only the files of the layout are
// read from an archive, as streams. Nothing is unpacked to the paths that its entries name.

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/evaluate/beir"
	"github.com/sluice-rag/sluice/schema"
)

// Limits of archives.
const (
	maxEntries        = 10_000
	maxUnpacked       = 64 << 30 // bytes
	maxExpansion      = 200      // ratio of unpacked to packed, if more than minExpansionBytes are unpacked
	minExpansionBytes = 10 << 20
)

// beirFiles are the files of a set in BEIR's layout.
type beirFiles struct {
	name   string // of the archive or folder, for messages
	files  fs.FS
	folder string            // folder of the set in files
	sizes  map[string]uint64 // sizes of an archive's entries, as stated in it
}

// isArchive reports whether a file is a zip file, by its first bytes.
func isArchive(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && bytes.Equal(magic, []byte("PK\x03\x04"))
}

// openBEIR opens an archive or a folder.
func openBEIR(name string) (*beirFiles, func() error, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return &beirFiles{name: name, files: os.DirFS(name), folder: "."}, func() error { return nil }, nil
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: open the archive: %w", name, err)
	}
	b, err := inspect(name, &z.Reader)
	if err != nil {
		return nil, nil, errors.Join(err, z.Close())
	}
	return b, z.Close, nil
}

// inspect checks all entries of an archive before any is read.
func inspect(name string, z *zip.Reader) (*beirFiles, error) {
	b := &beirFiles{name: name, files: z, sizes: map[string]uint64{}}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("%s: has %d entries; %d are the most", name, len(z.File), maxEntries)
	}
	var unpacked, packed uint64
	var folders []string
	for _, f := range z.File {
		refused := func(why string) error {
			return fmt.Errorf("%s: entry %.200q %s: the archive is refused", name, f.Name, why)
		}
		entry := strings.TrimSuffix(f.Name, "/")
		switch {
		case strings.Contains(f.Name, `\`) || !fs.ValidPath(entry) || !filepath.IsLocal(entry):
			return nil, refused("leads out of the archive")
		case f.Mode()&^(fs.ModePerm|fs.ModeDir) != 0:
			return nil, refused("is no file, but a link or a device")
		case f.Flags&1 != 0:
			return nil, refused("is encrypted")
		}
		if _, twice := b.sizes[entry]; twice {
			return nil, refused("occurs twice")
		}
		b.sizes[entry] = f.UncompressedSize64
		if f.UncompressedSize64 > maxUnpacked-unpacked {
			return nil, fmt.Errorf("%s: unpacked it has more than %s", name, schema.FormatBytes(maxUnpacked))
		}
		unpacked, packed = unpacked+f.UncompressedSize64, packed+f.CompressedSize64
		if path.Base(entry) == "corpus.jsonl" && !strings.HasPrefix(entry, "__MACOSX/") {
			folders = append(folders, path.Dir(entry))
		}
	}
	switch {
	case unpacked > minExpansionBytes && unpacked > maxExpansion*packed:
		return nil, fmt.Errorf("%s: its entries unpack to more than %d times their size: the archive is refused", name, maxExpansion)
	case len(folders) == 0:
		return nil, fmt.Errorf("%s is an archive without a corpus.jsonl: unpack it, and name the file in it", name)
	case len(folders) > 1:
		slices.Sort(folders)
		return nil, fmt.Errorf("%s has several sets: unpack it, and name the folder of one: %s", name, strings.Join(folders, ", "))
	}
	b.folder = folders[0]
	return b, nil
}

// read reads one file of the set.
func (b *beirFiles) read(ctx context.Context, file string, o Options, use func(*input) error) error {
	file = path.Join(b.folder, file)
	shown := filepath.Join(b.name, filepath.FromSlash(file))
	f, err := b.files.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: BEIR's sets have corpus.jsonl, queries.jsonl and qrels/: %w", shown, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	var content io.Reader = f
	if b.sizes != nil { // an entry may state less than it has
		content = &exact{in: f, left: b.sizes[file]}
	}
	in, err := textOf(shown, &measured{ctx: ctx, in: content, name: path.Base(file), of: info.Size(), progress: o.Progress})
	if err == nil {
		err = use(in)
	}
	return errors.Join(err, f.Close())
}

// exact fails when an entry has more bytes than it states.
type exact struct {
	in   io.Reader
	left uint64
}

// Read implements io.Reader.
func (e *exact) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	if uint64(n) > e.left {
		return 0, errors.New("the archive's entry is larger than it says")
	}
	e.left -= uint64(n)
	return n, err
}

// splits returns the names of the qrels files to read.
func (b *beirFiles) splits(only string) ([]string, error) {
	found, err := fs.Glob(b.files, path.Join(b.folder, "qrels", "*.tsv"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range found {
		out = append(out, strings.TrimSuffix(path.Base(f), ".tsv"))
	}
	slices.Sort(out)
	switch {
	case only != "" && !slices.Contains(out, only):
		return nil, schema.Invalid("split", "%s has no split %q; it has: %s", b.name, only, strings.Join(out, ", "))
	case only != "":
		return []string{only}, nil
	}
	return out, nil
}

// readBEIRQuestions reads the judgements and their questions.
func readBEIRQuestions(ctx context.Context, s *set, src sourceFile) (err error) {
	b, closing, err := openBEIR(src.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	splits, err := b.splits(s.options.Split)
	if err != nil {
		return err
	}
	judged := map[string][]judgement{}
	for _, split := range splits {
		if err := beir.CheckSplit(split); err != nil {
			return fmt.Errorf("%s: qrels/%s.tsv: %w", b.name, split, err)
		}
		err := b.read(ctx, "qrels/"+split+".tsv", s.options, func(in *input) error { return judgements(in, split, judged) })
		if err != nil {
			return err
		}
	}
	err = b.read(ctx, "queries.jsonl", s.options, func(in *input) error {
		return eachLine(in, func(n int, line []byte) error {
			var r beir.QueryLine
			if err := numbered(line, &r); err != nil {
				return err
			}
			q := &query{id: r.ID, text: r.Text, place: position{"line", n}.String(), more: r.Metadata, judgements: judged[r.ID]}
			q.unanswerable = r.Metadata["unanswerable"] == true || r.Metadata["is_impossible"] == true
			if len(q.judgements) == 0 && !q.unanswerable && (len(splits) > 0 || !filled(r.Metadata["answers"])) {
				s.drop("questions that are judged in no split that is kept")
				return nil
			}
			delete(judged, r.ID)
			return s.addQuestion(q)
		})
	})
	for _, js := range judged {
		s.dropped["judgements of questions that are not there"] += len(js)
	}
	return err
}

// filled reports whether metadata is a non-empty text or list.
func filled(v any) bool {
	list, isList := v.([]any)
	text, _ := v.(string)
	return text != "" || isList && len(list) > 0
}

// numbered decodes a JSON object, and keeps numbers as they are written.
func numbered(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("is not JSON: %w", err)
		}
		return wrongType(err)
	}
	return nil
}

// judgements reads a qrels file.
func judgements(in *input, split string, into map[string][]judgement) error {
	seen := map[[2]string]int{}
	return eachLine(in, func(n int, line []byte) error {
		cells := strings.Split(string(line), "\t")
		if len(cells) != 3 {
			return fmt.Errorf("has %d columns; three are expected, with tabs between: query-id, corpus-id, score", len(cells))
		}
		grade, err := strconv.Atoi(strings.TrimSpace(cells[2]))
		if err != nil {
			if n == 1 { // the header
				return nil
			}
			return fmt.Errorf("score: %.40q is not a whole number", cells[2])
		}
		pair := [2]string{cells[0], cells[1]}
		if before, twice := seen[pair]; twice {
			return fmt.Errorf("%q and %q are judged on line %d already", cells[0], cells[1], before)
		}
		seen[pair] = n
		into[cells[0]] = append(into[cells[0]], judgement{split, cells[1], grade})
		return nil
	})
}

// readBEIRCorpus reads the documents.
func readBEIRCorpus(ctx context.Context, s *set, src sourceFile) (err error) {
	b, closing, err := openBEIR(src.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	return b.read(ctx, "corpus.jsonl", s.options, func(in *input) error {
		return eachLine(in, func(n int, line []byte) error {
			var d beir.CorpusLine
			if err := numbered(line, &d); err != nil {
				return err
			}
			return s.withID(d, n, "line")
		})
	})
}
