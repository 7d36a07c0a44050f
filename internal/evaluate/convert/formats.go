package convert

// This file lists the formats, and detects the format of a file.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Auto detects the format.
const Auto = "auto"

// readFunc reads a source into a set.
type readFunc func(ctx context.Context, s *set, src sourceFile) error

// kind is a kind of file.
type kind struct {
	name      string   // name of the kind, for messages
	first     bool     // read before the questions
	questions readFunc // reads questions, with the documents that come with them
	corpus    readFunc // reads documents without questions
}

// Kinds of files.
var (
	squadFile     = &kind{name: "SQuAD's JSON", questions: stream(readSQuAD)}
	hotpotFile    = &kind{name: "HotpotQA's JSON", questions: inList(multihop)}
	twoWikiFile   = &kind{name: "2WikiMultihopQA's JSON", questions: inList(multihop)}
	aliasFile     = &kind{name: "2WikiMultihopQA's id_aliases.json", first: true, questions: inLines(entity)}
	musiqueFile   = &kind{name: "MuSiQue's JSON Lines", questions: inLines(musique)}
	answersFile   = &kind{name: "DPR's questions and answers", questions: stream(readAnswers)}
	retrieverFile = &kind{name: "DPR's retriever JSON", questions: inList(retrieved)}
	passagesFile  = &kind{name: "DPR's passages (psgs_w100.tsv)", corpus: stream(readPassages)}
	openFile      = &kind{name: "NQ-open's JSON Lines", questions: inLines(openQuestion)}
	popQAFile     = &kind{name: "PopQA's TSV", questions: stream(readPopQA)}
	qasperFile    = &kind{name: "QASPER's JSON", questions: stream(readQASPER)}
	pubHealthFile = &kind{name: "PubHealth's TSV", questions: stream(readPubHealth)}
	beirFile      = &kind{name: "BEIR's archive or folder", questions: readBEIRQuestions, corpus: readBEIRCorpus}
)

// format is a published format of question sets. The first kind is that of its questions.
type format struct {
	name  string
	kinds []*kind
}

var formats = []format{
	{"squad", []*kind{squadFile}},
	{"hotpotqa", []*kind{hotpotFile, twoWikiFile}},
	{"2wiki", []*kind{twoWikiFile, hotpotFile, aliasFile}},
	{"musique", []*kind{musiqueFile}},
	{"dpr", []*kind{retrieverFile, answersFile, passagesFile}},
	{"nq-open", []*kind{openFile, passagesFile}},
	{"popqa", []*kind{popQAFile, passagesFile}},
	{"qasper", []*kind{qasperFile}},
	{"pubhealth", []*kind{pubHealthFile, passagesFile}},
	{"beir", []*kind{beirFile}},
}

// FormatNames returns the names of the formats.
func FormatNames() []string {
	var out []string
	for _, f := range formats {
		out = append(out, f.name)
	}
	return out
}

func formatNamed(name string) (format, bool) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	if i < 0 {
		return format{}, false
	}
	return formats[i], true
}

// identify detects the kind of each source, and the format.
func identify(ctx context.Context, o Options) ([]sourceFile, string, error) {
	var out []sourceFile
	for _, path := range o.Sources {
		k, err := kindOf(ctx, path)
		if err != nil {
			return nil, "", err
		}
		out = append(out, sourceFile{path, k})
	}
	f, named := formatNamed(o.Format)
	if !named {
		var err error
		if f, err = common(out); err != nil {
			return nil, "", err
		}
	}
	questions := false
	for i, src := range out {
		switch {
		case src.kind == nil: // the reader returns an error that says what is wrong
			out[i].kind = f.kinds[0]
		case !slices.Contains(f.kinds, src.kind):
			return nil, "", fmt.Errorf("%s: looks like %s, which is not of the format %s", src.path, src.kind.name, f.name)
		}
		questions = questions || out[i].kind.questions != nil && !out[i].kind.first
	}
	if !questions {
		return nil, "", fmt.Errorf("there is no file of questions: %s has none", strings.Join(o.Sources, ", "))
	}
	return out, f.name, nil
}

// common returns the format of the first source with questions.
func common(sources []sourceFile) (format, error) {
	for _, src := range sources {
		if src.kind == nil {
			return format{}, fmt.Errorf("%s: the format is not recognised: name it: %s", src.path, strings.Join(FormatNames(), ", "))
		}
	}
	for _, src := range sources {
		for _, f := range formats {
			if f.kinds[0] == src.kind || f.kinds[0] == retrieverFile && src.kind == answersFile {
				return f, nil
			}
		}
	}
	return format{}, fmt.Errorf("there is no file of questions: %s has none", sources[0].path)
}

// kindOf detects the kind of a file; nil if it is unknown.
func kindOf(ctx context.Context, path string) (*kind, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, "corpus.jsonl")); err != nil {
			return nil, fmt.Errorf("%s is a folder, and has no corpus.jsonl: name the file in it", path)
		}
		return beirFile, nil
	}
	if isArchive(path) {
		return beirFile, nil
	}
	in, closing, err := open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	text, err := in.Peek(peekBytes)
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if err = errors.Join(err, closing()); err != nil {
		return nil, named(path, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return kindOfText(text), nil
}

// kindOfText detects the kind of a file by its beginning.
func kindOfText(text []byte) *kind {
	switch bytes.TrimSpace(text)[0] {
	case '[':
		return kindOfList(outlineOf(text))
	case '{':
		return kindOfObject(outlineOf(text))
	}
	cells := header(text)
	has := func(columns ...string) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(cells, c) })
	}
	switch {
	case has("question", "possible_answers"):
		return popQAFile
	case has("claim", "label"):
		return pubHealthFile
	case len(cells) == 3 && has("id", "text", "title"):
		return passagesFile
	case len(cells) == 2 && strings.HasPrefix(strings.TrimSpace(cells[1]), "["):
		return answersFile
	}
	return nil
}

func kindOfList(o outline) *kind {
	switch {
	case o.has("paragraphs") && !o.has("question"):
		return squadFile
	case o.has("question", "evidences") && (o.has("context") || o.has("supporting_facts")):
		return twoWikiFile
	case o.has("question", "context"), o.has("question", "supporting_facts"):
		return hotpotFile
	case o.has("question", "positive_ctxs"):
		return retrieverFile
	}
	return nil
}

func kindOfObject(o outline) *kind {
	switch {
	case o.has("data"):
		return squadFile
	case o.has("Q_id"):
		return aliasFile
	case o.has("paragraphs", "question"), o.has("paragraphs", "id"):
		return musiqueFile
	case o.has("question", "answer"):
		return openFile
	case slices.Contains(o.inner, "full_text"), slices.Contains(o.inner, "qas"), slices.Contains(o.inner, "abstract"):
		return qasperFile
	}
	return nil
}

// outline has the keys of the first object of a text, and those of the first object that is a value
// in it.
type outline struct{ keys, inner []string }

func (o outline) has(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(o.keys, k) })
}

// outlineOf parses up to the end of the first object, or of the text.
func outlineOf(text []byte) outline {
	var o outline
	first := 1 // the depth of the first object
	if text = bytes.TrimSpace(text); text[0] == '[' {
		first = 2
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	var open []json.Delim
	isKey, inner := false, 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return o
		}
		if isKey {
			if name, is := token.(string); is {
				switch {
				case len(open) == first:
					o.keys = append(o.keys, name)
				case len(open) == first+1 && inner == 1:
					o.inner = append(o.inner, name)
				}
				isKey = false
				continue
			}
		}
		switch bracket, _ := token.(json.Delim); bracket {
		case '{', '[':
			if open = append(open, bracket); bracket == '{' && len(open) == first+1 {
				inner++
			}
		case '}', ']':
			if len(open) <= first {
				return o
			}
			open = open[:len(open)-1]
		}
		isKey = len(open) > 0 && open[len(open)-1] == '{'
	}
}
