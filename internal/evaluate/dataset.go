package evaluate

// This file reads BEIR folders: corpus.jsonl, queries.jsonl and
// qrels/<split>.tsv. Every error names the file and the line.

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// maxLine bounds one line of a file, in bytes.
const maxLine = 64 << 20

// Dataset is the content of a BEIR folder, without the documents' text.
type Dataset struct {
	Name      string // name of the folder
	Dir       string
	Split     string
	Hash      string  // SHA-256 of corpus.jsonl, hex
	Documents int     // 0 if only answers are measured and there is no corpus.jsonl
	Queries   []Topic // in the order of queries.jsonl
	Unjudged  int     // queries left out because no document is relevant to them in this split
	// Unanswerable are the left-out queries that are marked as having no answer in the corpus. They
	// are asked if answers are measured.
	Unanswerable []Topic
	// AnswersAlone is set if there are no judgements in any split. The questions are then those
	// with answers, and only the answers are measured.
	AnswersAlone bool
}

// Topic is a question with what is known about its answer.
type Topic struct {
	ID       string
	Text     string
	Relevant map[string]int // grade of each relevant document, above 0
	Answers  []string       // alternative right answers
	Evidence []string       // passages of the corpus that prove the answer
	Choices  []string       // of a multiple-choice question
	Scope    schema.Filter  // of the documents to search; empty: all
	// Unanswerable is set if the corpus has no answer. The answers, if any, say so.
	Unanswerable bool
}

// ReadDataset reads a BEIR folder. The questions are those with a relevant document in the given
// split ("test", "dev") or, in a folder without qrels, those with answers. A folder without qrels
// needs no corpus.
func ReadDataset(dir, split string) (*Dataset, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	d := &Dataset{Name: filepath.Base(absolute), Dir: dir, Split: split}
	documents, noCorpus := d.readCorpus()
	if noCorpus != nil && !errors.Is(noCorpus, fs.ErrNotExist) {
		return nil, noCorpus
	}
	queries, err := d.readQueries()
	if err != nil {
		return nil, errors.Join(noCorpus, err)
	}
	answered := slices.ContainsFunc(queries, func(q Topic) bool { return len(q.Answers) > 0 })
	if _, err := os.Stat(d.file("qrels")); errors.Is(err, fs.ErrNotExist) && answered {
		d.AnswersAlone = true
	} else if noCorpus != nil {
		return nil, noCorpus
	} else if err := d.readJudgements(documents, queries); err != nil {
		return nil, err
	}
	kept := queries[:0]
	for _, q := range queries {
		switch {
		case len(q.Relevant) > 0, d.AnswersAlone && len(q.Answers) > 0 && !q.Unanswerable:
			kept = append(kept, q)
		case q.Unanswerable:
			d.Unanswerable = append(d.Unanswerable, q)
		}
	}
	d.Queries, d.Unjudged = kept, len(queries)-len(kept)
	if len(d.Queries) == 0 {
		return nil, fmt.Errorf("%s: no question has a relevant document", d.judgements())
	}
	return d, nil
}

func (d *Dataset) file(name string) string { return filepath.Join(d.Dir, name) }
func (d *Dataset) judgements() string      { return d.file(filepath.Join("qrels", d.Split+".tsv")) }

// lines calls each with every non-blank line. Errors name the file and the line.
func lines(path string, content io.Reader, each func(n int, line []byte) error) error {
	scanner := bufio.NewScanner(content)
	scanner.Buffer(make([]byte, 1<<20), maxLine)
	n := 0
	for scanner.Scan() {
		n++
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		if err := each(n, scanner.Bytes()); err != nil {
			return fmt.Errorf("%s line %d: %w", path, n, err)
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s line %d: is longer than %s", path, n+1, schema.FormatBytes(maxLine))
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// open opens a file of a dataset. If it is missing the error names the files of a dataset.
func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: a dataset is a BEIR folder with corpus.jsonl, queries.jsonl and qrels/: %w", path, fs.ErrNotExist)
	}
	return f, err
}

// object parses a line as one JSON object.
func object(line []byte, into any) error {
	err := json.Unmarshal(line, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return errors.New("is not a JSON object")
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: is a %s", wrong.Field, wrong.Value)
	case err != nil:
		return fmt.Errorf("is not JSON: %w", err)
	}
	return nil
}

// readCorpus returns the ids of the documents.
func (d *Dataset) readCorpus() (map[string]bool, error) {
	path := d.file("corpus.jsonl")
	h := sha256.New()
	d.Hash = hex.EncodeToString(h.Sum(nil)) // of no documents
	seen := map[string]int{}
	err := d.eachDocument(h, func(n int, id, _, _ string) error { return once(seen, id, n) })
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("%s: has no documents", path)
	}
	d.Hash, d.Documents = hex.EncodeToString(h.Sum(nil)), len(seen)
	ids := make(map[string]bool, len(seen))
	for id := range seen {
		ids[id] = true
	}
	return ids, nil
}

// EachDocument calls each with every document of the corpus, in order.
func (d *Dataset) EachDocument(each func(id, title, text string) error) error {
	return d.eachDocument(io.Discard, func(_ int, id, title, text string) error { return each(id, title, text) })
}

// eachDocument is EachDocument with line numbers. It also writes what it reads to copied.
func (d *Dataset) eachDocument(copied io.Writer, each func(n int, id, title, text string) error) error {
	path := d.file("corpus.jsonl")
	f, err := open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return lines(path, io.TeeReader(f, copied), func(n int, line []byte) error {
		var document struct {
			ID       string         `json:"_id"`
			Title    string         `json:"title"`
			Text     string         `json:"text"`
			Metadata map[string]any `json:"metadata"`
		}
		if err := object(line, &document); err != nil {
			return err
		}
		return each(n, document.ID, document.Title, document.Text)
	})
}

// once records the line of an id, and returns an error if the id was seen before.
func once(seen map[string]int, id string, n int) error {
	if id == "" {
		return errors.New("_id: is missing")
	}
	if before, twice := seen[id]; twice {
		return fmt.Errorf("_id: %q is on line %d already", id, before)
	}
	seen[id] = n
	return nil
}

func (d *Dataset) readQueries() ([]Topic, error) {
	path := d.file("queries.jsonl")
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []Topic
	seen := map[string]int{}
	err = lines(path, f, func(n int, line []byte) error {
		var raw struct {
			ID       string        `json:"_id"`
			Text     string        `json:"text"`
			Metadata queryMetadata `json:"metadata"`
		}
		if err := object(line, &raw); err != nil {
			return err
		}
		if strings.TrimSpace(raw.Text) == "" {
			return errors.New("text: is missing")
		}
		out = append(out, Topic{ID: raw.ID, Text: raw.Text, Relevant: map[string]int{}, Answers: raw.Metadata.Answers, Evidence: raw.Metadata.Evidence,
			Choices: raw.Metadata.Choices, Scope: schema.Filter(raw.Metadata.Scope), Unanswerable: raw.Metadata.unanswerable()})
		return once(seen, raw.ID, n)
	})
	return out, err
}

// queryMetadata is the part of a query's metadata that is read.
type queryMetadata struct {
	Answers  strs  `json:"answers"`
	Evidence strs  `json:"evidence"`
	Choices  strs  `json:"choices"`
	Scope    scope `json:"scope"`
	// Marks of unanswerable questions: a flag, SQuAD 2's flag, or the type of the question
	// (RAGEval's "Irrelevant Unsolvable Question").
	Unanswerable bool `json:"unanswerable"`
	Impossible   bool `json:"is_impossible"`
	Type         any  `json:"type"`
}

// unanswerable reports whether a question is marked as such, or has an empty list of answers.
func (m queryMetadata) unanswerable() bool {
	kind, _ := m.Type.(string)
	kind = strings.ToLower(kind)
	return m.Unanswerable || m.Impossible || m.Answers != nil && len(m.Answers) == 0 ||
		strings.Contains(kind, "unanswerable") || strings.Contains(kind, "unsolvable")
}

// scope is an object of keys of documents' metadata, each with a value, or a list of values, that
// documents must have.
type scope schema.Filter

// UnmarshalJSON implements json.Unmarshaler.
func (s *scope) UnmarshalJSON(data []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return fmt.Errorf("metadata.scope is an object of metadata keys, such as {\"paper\": \"p7\"}; found %.60s", data)
	}
	*s = nil
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		var all []json.RawMessage
		if json.Unmarshal(keys[key], &all) != nil {
			all = []json.RawMessage{keys[key]}
		}
		c := schema.Condition{Key: key, Op: schema.OpIn}
		for _, raw := range all {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				var number json.Number
				if json.Unmarshal(raw, &number) != nil {
					return fmt.Errorf("metadata.scope: %s is a string, a number, or a list of them; found %.60s", key, raw)
				}
				text = number.String()
			}
			c.Values = append(c.Values, text)
		}
		*s = append(*s, c)
	}
	return schema.Filter(*s).Validate()
}

// strs is a string, or a list of strings or of objects with a "text".
type strs []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *strs) UnmarshalJSON(data []byte) error {
	var all []json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		all = []json.RawMessage{data}
	}
	*s = make(strs, 0, len(all)) // an empty list is not nil
	for _, raw := range all {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			var with struct {
				Text *string `json:"text"`
			}
			if json.Unmarshal(raw, &with) != nil || with.Text == nil {
				return fmt.Errorf("metadata.answers, metadata.evidence and metadata.choices are lists of strings, or of objects with a \"text\"; found %.60s", raw)
			}
			one = *with.Text
		}
		if strings.TrimSpace(one) != "" {
			*s = append(*s, one)
		}
	}
	return nil
}

// readJudgements sets the relevant documents of the queries.
func (d *Dataset) readJudgements(documents map[string]bool, queries []Topic) error {
	path := d.judgements()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: %w%s", path, fs.ErrNotExist, d.splits())
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	byID := make(map[string]*Topic, len(queries))
	for i := range queries {
		byID[queries[i].ID] = &queries[i]
	}
	judged := map[[2]string]int{}
	return lines(path, f, func(n int, line []byte) error {
		fields := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("has %d columns; three are expected, with tabs between: query-id, corpus-id, score", len(fields))
		}
		grade, err := strconv.Atoi(strings.TrimSpace(fields[2]))
		if err != nil {
			if n == 1 { // the header
				return nil
			}
			return fmt.Errorf("score: %q is not a whole number", fields[2])
		}
		query, document := fields[0], fields[1]
		q, known := byID[query]
		switch {
		case !known:
			return fmt.Errorf("query-id: %q is not in queries.jsonl", query)
		case !documents[document]:
			return fmt.Errorf("corpus-id: %q is not in corpus.jsonl", document)
		}
		pair := [2]string{query, document}
		if before, twice := judged[pair]; twice {
			return fmt.Errorf("%q and %q are judged on line %d already", query, document, before)
		}
		judged[pair] = n
		if grade > 0 {
			q.Relevant[document] = grade
		}
		return nil
	})
}

// splits names the splits of the folder, for an error message.
func (d *Dataset) splits() string {
	found, err := filepath.Glob(d.file(filepath.Join("qrels", "*.tsv")))
	if err != nil || len(found) == 0 {
		return ""
	}
	for i, f := range found {
		found[i] = strings.TrimSuffix(filepath.Base(f), ".tsv")
	}
	return "; choose one with --split: " + strings.Join(found, ", ")
}
